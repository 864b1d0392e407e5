// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners and streams.

use super::core::{current, Core};
use super::lease::{Lease, SendBuf};
use super::op::{result_of, Op};
use super::slots::{Owned, Sink};
use crate::addr::{Addr, ToAddr};
use crate::ask::{nanos, shutdown_arg};
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::{op, Plain};
use crate::options::ListenOptions;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::net::Shutdown;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Accepted streams that may wait for a call of accept; beyond them the listener's backlog holds them.
const ACCEPTED_MAX: usize = 1024;
/// Received bytes that may wait for a call of recv (kept memory has a cap of its own).
const RECEIVED_MAX: usize = 256 * 1024;

/// What an operation of many events has brought, until somebody takes it.
struct Inbox<T> {
    items: RefCell<VecDeque<T>>,
    waiting: RefCell<Vec<Waker>>,
    /// Its operation is under way.
    armed: Cell<bool>,
    /// How the operation ended, if not by our own cancel.
    end: Cell<Option<Error>>,
    /// The user-facing object has been dropped.
    dropped: Cell<bool>,
}

impl<T> Inbox<T> {
    fn new() -> Inbox<T> {
        Inbox {
            items: RefCell::default(),
            waiting: RefCell::default(),
            armed: Cell::new(false),
            end: Cell::new(None),
            dropped: Cell::new(false),
        }
    }

    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake(&self) {
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Accepts streams. Dropping it closes it.
pub struct Listener {
    inner: Rc<ListenerInner>,
    port: u16,
}

struct ListenerInner {
    core: Rc<Core>,
    handle: Handle,
    inbox: Inbox<Handle>,
    cancelling: Cell<bool>,
}

impl Listener {
    /// Listens on an address: a text such as `"127.0.0.1:0"` or `"unix:/path"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(addr: impl ToAddr) -> Result<Listener> {
        Listener::bind_with(addr, ListenOptions::new()).await
    }

    /// The same with options.
    pub async fn bind_with(addr: impl ToAddr, options: ListenOptions) -> Result<Listener> {
        let core = current();
        let addr = addr.to_addr()?;
        let listen = sys::quoit_op { opcode: sys::QUOIT_OP_LISTEN, ..Default::default() };
        let listen = Op::start(&core, listen, |op| core.ops().listen_to(addr, options, op.user_data));
        let (_, done) = listen.await;
        check_event(done.event.result)?;
        let inner = ListenerInner {
            core,
            handle: Handle::from_raw(done.event.value),
            inbox: Inbox::new(),
            cancelling: Cell::new(false),
        };
        Ok(Listener { inner: Rc::new(inner), port: done.event.aux as u16 })
    }

    /// The next stream. Streams that come while nobody waits are kept for the next call, so dropping the future loses none.
    pub async fn accept(&self) -> Result<Stream> {
        let inner = &self.inner;
        let handle = poll_fn(|context| {
            if let Some(handle) = inner.inbox.items.borrow_mut().pop_front() {
                return Poll::Ready(Ok(handle));
            }
            if let Some(error) = inner.inbox.end.take() {
                return Poll::Ready(Err(error));
            }
            if inner.core.is_closed() {
                return Poll::Ready(Err(Error::CLOSED));
            }
            inner.inbox.wait(context.waker());
            if !inner.inbox.armed.replace(true) {
                let sink: Rc<dyn Sink> = Rc::clone(inner) as Rc<dyn Sink>;
                let accept = op(sys::QUOIT_OP_ACCEPT, inner.handle, 0);
                inner.core.start_many(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, ..accept }, sink);
            }
            Poll::Pending
        })
        .await?;
        Ok(Stream::new(&inner.core, handle))
    }

    /// The port that was bound; 0 for Unix sockets.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> Result<Addr> {
        self.inner.core.ops().local_addr(self.inner.handle)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.inner.handle
    }
}

impl Sink for ListenerInner {
    fn event(&self, core: &Core, event: &sys::quoit_event) {
        if event.flags & sys::QUOIT_EVF_MORE == 0 {
            self.inbox.armed.set(false);
        }
        match check_event(event.result) {
            Ok(_) if self.inbox.dropped.get() => core.close(Handle::from_raw(event.value), true),
            Ok(_) => {
                let mut items = self.inbox.items.borrow_mut();
                items.push_back(Handle::from_raw(event.value));
                if items.len() >= ACCEPTED_MAX && self.inbox.armed.get() && !self.cancelling.replace(true) {
                    let cancel = op(sys::QUOIT_OP_CANCEL, self.handle, 0);
                    core.tell(sys::quoit_op { arg: sys::QUOIT_OP_ACCEPT, ..cancel });
                }
            }
            Err(Error::CANCELED) if self.cancelling.get() => {}
            Err(error) => self.inbox.end.set(Some(error)),
        }
        if !self.inbox.armed.get() {
            self.cancelling.set(false);
        }
        self.inbox.wake();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.inner.inbox.dropped.set(true);
        for handle in self.inner.inbox.items.take() {
            self.inner.core.close(handle, true);
        }
        self.inner.core.close(self.inner.handle, false);
    }
}

/// A connected stream. Receiving and sending may go on at the same time, also from several tasks that share it in an `Rc`.
/// Dropping it sends what is queued, then closes it.
pub struct Stream {
    inner: Rc<StreamInner>,
}

struct StreamInner {
    core: Rc<Core>,
    handle: Handle,
    inbox: Inbox<Lease>,
    waiting_bytes: Cell<usize>,
    paused: Cell<bool>,
    eof: Cell<bool>,
    /// A close has been asked for, so dropping must not ask again.
    closed: Cell<bool>,
}

impl Stream {
    fn new(core: &Rc<Core>, handle: Handle) -> Stream {
        let inner = StreamInner {
            core: Rc::clone(core),
            handle,
            inbox: Inbox::new(),
            waiting_bytes: Cell::new(0),
            paused: Cell::new(false),
            eof: Cell::new(false),
            closed: Cell::new(false),
        };
        Stream { inner: Rc::new(inner) }
    }

    /// Connects to an address: a text such as `"127.0.0.1:80"` or `"unix:/path"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(addr: impl ToAddr) -> Result<Stream> {
        let core = current();
        let addr = addr.to_addr()?;
        let connect = sys::quoit_op {
            opcode: sys::QUOIT_OP_CONNECT,
            len: size_of::<sys::quoit_addr>() as u32,
            ..Default::default()
        };
        let connect = Op::start(&core, connect, |op| core.ops().push_with(op, addr.raw.bytes()));
        let handle = result_with_value(connect).await?;
        Ok(Stream::new(&core, handle))
    }

    /// The next bytes, or none at the stream's end. What comes while nobody waits is kept for the next call, so dropping the
    /// future loses nothing; when too much waits, the stream receives no more until some is taken.
    pub async fn recv(&self) -> Result<Option<Lease>> {
        let inner = &self.inner;
        poll_fn(|context| {
            if let Some(lease) = inner.inbox.items.borrow_mut().pop_front() {
                inner.taken(lease.len());
                return Poll::Ready(Ok(Some(lease)));
            }
            if inner.eof.get() {
                return Poll::Ready(Ok(None));
            }
            if let Some(error) = inner.inbox.end.get() {
                return Poll::Ready(Err(error));
            }
            if inner.core.is_closed() {
                return Poll::Ready(Err(Error::CLOSED));
            }
            inner.inbox.wait(context.waker());
            inner.arm();
            Poll::Pending
        })
        .await
    }

    /// Sends bytes, all of them. The operation owns them; they come back with the number that was sent or the error.
    ///
    /// The send begins with this call. Dropping the future asks it to end; how much of it then went is not known, so that
    /// nothing but a close makes sense after.
    pub fn send<B: SendBuf>(&self, bytes: B) -> impl Future<Output = (Result<usize>, B::Back)> {
        let mut send = op(sys::QUOIT_OP_SEND, self.inner.handle, 0);
        bytes.describe(&mut send);
        // SAFETY: describe names memory that into_owned moves into the slot without changing its address.
        let send = unsafe { Op::owning(&self.inner.core, send, bytes.into_owned()) };
        async {
            let (owned, done) = send.await;
            (check_event(done.event.result).map(|count| count as usize), B::from_owned(owned))
        }
    }

    /// Sends several pieces as one.
    pub fn send_many(&self, pieces: Vec<Vec<u8>>) -> impl Future<Output = (Result<usize>, Vec<Vec<u8>>)> {
        let slices: Vec<sys::quoit_iov> = pieces
            .iter()
            .map(|piece| {
                assert!(u32::try_from(piece.len()).is_ok(), "one piece has less than 4 GiB");
                sys::quoit_iov { addr: piece.as_ptr() as u64, len: piece.len() as u32, flags: 0 }
            })
            .collect();
        let send = sys::quoit_op {
            flags: sys::QUOIT_OPF_IOV | sys::QUOIT_OPF_BORROW,
            addr: slices.as_ptr() as u64,
            len: slices.len() as u32,
            ..op(sys::QUOIT_OP_SENDV, self.inner.handle, 0)
        };
        // SAFETY: the pieces and the list of them are vectors, whose memory stays where it is when they are moved.
        let send = unsafe { Op::owning(&self.inner.core, send, Owned::Many(pieces, slices)) };
        async {
            let (owned, done) = send.await;
            let pieces = match owned {
                Owned::Many(pieces, _) => pieces,
                _ => Vec::new(),
            };
            (check_event(done.event.result).map(|count| count as usize), pieces)
        }
    }

    /// Ends one direction, or both, after what is queued.
    pub fn shutdown(&self, how: Shutdown) -> impl Future<Output = Result<()>> {
        let shutdown = op(sys::QUOIT_OP_SHUTDOWN, self.inner.handle, 0);
        let shutdown = Op::plain(&self.inner.core, sys::quoit_op { arg: shutdown_arg(how), ..shutdown });
        async { result_of(shutdown).await.map(|_| ()) }
    }

    /// Sends what is queued, tells the peer that no more comes, waits for the peer's end (or the limit) and closes. Gives the
    /// number of bytes that could not be sent.
    pub async fn close(self, limit: Option<Duration>) -> Result<u64> {
        let timeout_ns = limit.map_or(0, |limit| nanos(limit).max(1));
        let close = sys::quoit_op { timeout_ns, ..op(sys::QUOIT_OP_CLOSE, self.inner.handle, 0) };
        self.finish(close).await
    }

    /// Tears down at once; what is queued is dropped.
    pub async fn abort(self) -> Result<u64> {
        let close = op(sys::QUOIT_OP_CLOSE, self.inner.handle, 0);
        self.finish(sys::quoit_op { flags: sys::QUOIT_OPF_ABORT, ..close }).await
    }

    async fn finish(self, close: sys::quoit_op) -> Result<u64> {
        self.inner.closed.set(true);
        let (_, done) = Op::plain(&self.inner.core, close).await;
        check_event(done.event.result).map(|_| done.event.value)
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Result<Addr> {
        self.inner.core.ops().peer_addr(self.inner.handle)
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<Addr> {
        self.inner.core.ops().local_addr(self.inner.handle)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.inner.handle
    }
}

/// The object that an operation makes.
pub(crate) async fn result_with_value(op: Op) -> Result<Handle> {
    let (_, done) = op.await;
    check_event(done.event.result).map(|_| Handle::from_raw(done.event.value))
}

impl StreamInner {
    /// Starts receiving, if it does not yet.
    fn arm(self: &Rc<StreamInner>) {
        if !self.inbox.armed.replace(true) {
            let sink: Rc<dyn Sink> = Rc::clone(self) as Rc<dyn Sink>;
            let flags = sys::QUOIT_OPF_MULTI | sys::QUOIT_OPF_KEEP;
            self.core.start_many(sys::quoit_op { flags, ..op(sys::QUOIT_OP_RECV, self.handle, 0) }, sink);
        }
    }

    fn taken(&self, count: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get() - count);
        if self.waiting_bytes.get() == 0 && self.paused.replace(false) {
            let resume = op(sys::QUOIT_OP_RECV_RESUME, self.handle, 0);
            self.core.tell(sys::quoit_op { flags: sys::QUOIT_OPF_QUIET, ..resume });
        }
    }
}

impl Sink for StreamInner {
    fn event(&self, core: &Core, event: &sys::quoit_event) {
        if event.flags & sys::QUOIT_EVF_MORE == 0 {
            self.inbox.armed.set(false);
        }
        match check_event(event.result) {
            Ok(_) if event.len > 0 => {
                // Made in any case: a kept buffer goes back when its lease is dropped.
                let lease = Lease::from_event(&self.core, event);
                if !self.inbox.dropped.get() {
                    self.waiting_bytes.set(self.waiting_bytes.get() + lease.len());
                    self.inbox.items.borrow_mut().push_back(lease);
                }
            }
            Ok(_) => {}
            Err(error) => self.inbox.end.set(Some(error)),
        }
        if event.flags & sys::QUOIT_EVF_EOF != 0 {
            self.eof.set(true);
        } else if self.waiting_bytes.get() > RECEIVED_MAX
            && self.inbox.armed.get()
            && !self.paused.replace(true)
        {
            let pause = op(sys::QUOIT_OP_RECV_PAUSE, self.handle, 0);
            core.tell(sys::quoit_op { flags: sys::QUOIT_OPF_QUIET, ..pause });
        }
        self.inbox.wake();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.inner.inbox.dropped.set(true);
        drop(self.inner.inbox.items.take());
        if !self.inner.closed.replace(true) {
            self.inner.core.close(self.inner.handle, false);
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("handle", &self.inner.handle).field("port", &self.port).finish()
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("handle", &self.inner.handle).finish_non_exhaustive()
    }
}
