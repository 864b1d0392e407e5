// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that come from elsewhere, and that go back: the standard library's, a service manager's, any descriptor.

use super::datagram::Socket;
use super::options::Parts;
use super::{
    result_with_value, Listener, Stream, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener,
    UnixStream,
};
use crate::error::{check, check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::options::BindOptions;
use crate::rt::core::{current, Core};
use crate::rt::op::Op;
use crate::rt::slots::Owned;
use quoit_sys as sys;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as unix;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, net};

/// A socket that cannot leave yet: something is under way, or came and was not taken. Here it is.
pub struct NotDetached<T> {
    /// The socket, as good as before.
    pub socket: T,
    /// Why: `QUOIT_E_BUSY` mostly.
    pub error: Error,
}

impl<T> NotDetached<T> {
    fn map<U>(self, make: impl FnOnce(T) -> U) -> NotDetached<U> {
        NotDetached { socket: make(self.socket), error: self.error }
    }
}

impl<T> From<NotDetached<T>> for Error {
    fn from(not: NotDetached<T>) -> Error {
        not.error
    }
}

impl<T> fmt::Debug for NotDetached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotDetached").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for NotDetached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for NotDetached<T> {}

type Detached<F, T> = std::result::Result<F, NotDetached<T>>;

/// A socket that comes and goes with its descriptor.
trait Movable: Parts + Sized {
    /// `QUOIT_HANDLE_*`.
    const KIND: u32;

    fn arrived(core: Rc<Core>, handle: Handle) -> Self;
    /// Receives no more; true if nothing that came waits to be taken.
    async fn settled(&self) -> bool;
    /// Its handle has ended.
    fn left(&self);
}

/// Makes a descriptor an object of this worker. If it is none, the descriptor is closed.
async fn adopt<T: Movable>(fd: OwnedFd) -> Result<T> {
    let core = current();
    let offset = i64::from(fd.as_raw_fd());
    let adopt = sys::quoit_op { arg: T::KIND, offset, ..op(sys::QUOIT_OP_ADOPT, Handle::NONE, 0) };
    let adopt = Op::with(&core, adopt, Owned::Fd(fd), |op| core.ops().push(op));
    let handle = result_with_value(adopt).await?;
    Ok(T::arrived(core, handle))
}

async fn detach<T: Movable>(socket: T) -> Detached<OwnedFd, T> {
    if !socket.settled().await {
        return Err(NotDetached { socket, error: Error::BUSY });
    }
    let (core, handle) = socket.parts();
    let (owned, done) = Op::plain(core, op(sys::QUOIT_OP_DETACH, handle, 0)).await;
    match (owned, check_event(done.event.result)) {
        (Owned::Fd(fd), Ok(_)) => {
            socket.left();
            Ok(fd)
        }
        (_, end) => Err(NotDetached { socket, error: end.err().unwrap_or(Error::CLOSED) }),
    }
}

impl Movable for Stream {
    const KIND: u32 = sys::QUOIT_HANDLE_STREAM;

    fn arrived(core: Rc<Core>, handle: Handle) -> Stream {
        Stream::new(&core, handle)
    }

    async fn settled(&self) -> bool {
        let inner = &self.inner;
        inner.inbox.stop(&inner.core, inner.handle, sys::QUOIT_OP_RECV).await;
        inner.inbox.is_empty() && inner.sends.is_settled() && !inner.has_passed()
    }

    fn left(&self) {
        self.inner.closed.set(true);
    }
}

impl Movable for Listener {
    const KIND: u32 = sys::QUOIT_HANDLE_LISTENER;

    fn arrived(core: Rc<Core>, handle: Handle) -> Listener {
        let port = core.ops().local_addr(handle).map_or(0, |addr| addr.port());
        Listener::new(core, handle, port)
    }

    async fn settled(&self) -> bool {
        let inner = &self.inner;
        inner.inbox.stop(&inner.core, inner.handle, sys::QUOIT_OP_ACCEPT).await;
        inner.inbox.is_empty()
    }

    fn left(&self) {
        self.inner.left.set(true);
    }
}

impl Movable for Socket {
    const KIND: u32 = sys::QUOIT_HANDLE_DATAGRAM;

    fn arrived(core: Rc<Core>, handle: Handle) -> Socket {
        Socket::new(core, handle, BindOptions::new())
    }

    async fn settled(&self) -> bool {
        let inner = &self.inner;
        inner.inbox.stop(&inner.core, inner.handle, sys::QUOIT_OP_RECVMSG).await;
        inner.inbox.is_empty()
    }

    fn left(&self) {
        self.inner.left.set(true);
    }
}

impl Stream {
    /// Makes a connected stream socket a stream of this worker. The descriptor is closed if it is something else.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn adopt(fd: impl Into<OwnedFd>) -> Result<Stream> {
        adopt(fd.into()).await
    }

    /// The descriptor, blocking and close-on-exec; the stream has then left the worker.
    ///
    /// # Errors
    /// `QUOIT_E_BUSY`, with the stream, while something that was received is not taken, a send is under way, or one that was
    /// dropped is not [settled](Stream::settle). Dropping the future closes the stream.
    pub async fn detach(self) -> Detached<OwnedFd, Stream> {
        detach(self).await
    }
}

impl Listener {
    /// Makes a socket that listens a listener of this worker, such as one that a service manager [passed](inherited). The
    /// descriptor is closed if it is something else.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn adopt(fd: impl Into<OwnedFd>) -> Result<Listener> {
        adopt(fd.into()).await
    }

    /// The descriptor, blocking and close-on-exec; the listener has then left the worker, and its backlog is where it was.
    ///
    /// # Errors
    /// `QUOIT_E_BUSY`, with the listener, while a stream was accepted that nobody has taken. Dropping the future closes it.
    pub async fn detach(self) -> Detached<OwnedFd, Listener> {
        detach(self).await
    }
}

fn of_another_kind(error: std::io::Error) -> Error {
    if error.raw_os_error().is_some() {
        error.into()
    } else {
        Error::KIND
    }
}

/// Sockets of one type, which the standard library has too.
macro_rules! std_sockets {
    ($($type:ident, $std:ty, $this:ident => $inner:expr, $new:expr;)*) => {$(
        impl $type {
            /// Takes a socket of the standard library over. It is closed if it is of another kind: `QUOIT_E_KIND`.
            ///
            /// # Panics
            /// Outside of `block_on`.
            pub async fn from_std(socket: $std) -> Result<$type> {
                // The standard library takes any descriptor, and finds no address of its own kind.
                socket.local_addr().map_err(of_another_kind)?;
                adopt(OwnedFd::from(socket)).await.map($new)
            }

            /// Gives the socket to the standard library, blocking.
            ///
            /// # Errors
            /// `QUOIT_E_BUSY`, with the socket, while something is under way, or came and was not taken. Dropping the future closes
            /// it.
            pub async fn into_std(self) -> Detached<$std, $type> {
                let $this = self;
                let end = detach($inner).await;
                end.map(<$std>::from).map_err(|not| not.map($new))
            }
        }
    )*};
}

std_sockets! {
    TcpStream, net::TcpStream, this => this.0, TcpStream;
    TcpListener, net::TcpListener, this => this.0, TcpListener;
    UnixStream, unix::UnixStream, this => this.0, UnixStream;
    UnixListener, unix::UnixListener, this => this.0, UnixListener;
    UdpSocket, net::UdpSocket, this => this.socket, |socket| UdpSocket { socket };
    UnixDatagram, unix::UnixDatagram, this => this.socket, |socket| UnixDatagram { socket };
}

/// A descriptor that a service manager passed to this process, for [`Listener::adopt`] and its like.
#[derive(Debug)]
pub struct Inherited {
    fd: OwnedFd,
    name: String,
}

impl Inherited {
    /// The name that it has in the service manager's configuration; empty if none.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<Inherited> for OwnedFd {
    fn from(inherited: Inherited) -> OwnedFd {
        inherited.fd
    }
}

/// The descriptors that a service manager passed to this process (`LISTEN_FDS`), in order. The first call gives them, so that nobody
/// else has them too; later ones give none.
///
/// # Errors
/// `EINVAL` if the variables hold no numbers, `EBADF` if one of the descriptors is not open.
pub fn inherited() -> Result<Vec<Inherited>> {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    if GIVEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let found = passed_fds();
    GIVEN.store(found.is_ok(), Ordering::SeqCst);
    let (first, count, names) = found?;
    let mut names = names.split(':');
    let take = |fd| {
        let name = names.next().unwrap_or_default().to_string();
        // SAFETY: the descriptor was passed to this process, by its number, and is open; nobody else was given it.
        Inherited { fd: unsafe { OwnedFd::from_raw_fd(fd) }, name }
    };
    Ok((first..first + count).map(take).collect())
}

/// The first, how many, and their names with colons between.
fn passed_fds() -> Result<(i32, i32, String)> {
    const ENOSPC: i32 = -28;
    let (mut first, mut names) = (0, vec![0u8; 4096]);
    loop {
        // SAFETY: first takes a number and names a text of at most its size. No thread of ours changes the environment.
        let status =
            unsafe { sys::quoit_inherited_fds(&mut first, names.as_mut_ptr().cast(), names.len() as u32) };
        if status == ENOSPC && names.len() < 1 << 20 {
            names.resize(names.len() * 4, 0);
            continue;
        }
        let count = check(status)? as i32;
        let len = names.iter().position(|byte| *byte == 0).unwrap_or(0);
        return Ok((first, count, String::from_utf8_lossy(&names[..len]).into_owned()));
    }
}
