// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use super::{result_with_value, typed, Inbox};
use crate::addr::{Addr, ToAddr};
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::options::BindOptions;
use crate::rt::core::{current, Core};
use crate::rt::lease::Lease;
use crate::rt::op::Op;
use crate::rt::slots::{Owned, Sink};
use quoit_sys as sys;
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;
use std::task::Poll;

/// Datagrams that may wait for a call of recv; beyond them the kernel holds what comes, and drops what it cannot hold.
const WAITING_MAX: usize = 128;

/// A datagram that came, in the receive buffer that the kernel wrote. The buffer goes back when this is dropped.
#[derive(Debug)]
pub struct Datagram {
    bytes: Lease,
    from: Addr,
    whole: usize,
}

impl Datagram {
    /// Who sent it; none if the socket it came from has no name.
    pub fn from(&self) -> Option<SocketAddr> {
        self.from.to_socket_addr()
    }

    /// How many bytes it had. More than are here if it was longer than a receive buffer.
    pub fn whole_len(&self) -> usize {
        self.whole
    }

    /// True if not all of it is here.
    pub fn is_truncated(&self) -> bool {
        self.whole > self.bytes.len()
    }

    /// Its bytes, without its address.
    pub fn into_lease(self) -> Lease {
        self.bytes
    }
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A UDP socket, connected to a peer or not. Dropping it sends what is queued, then closes it.
///
/// ```
/// # use quoit::net::UdpSocket;
/// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
/// # executor.block_on(async {
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::connect(server.local_addr()?).await?;
/// client.send(b"question").await?;
/// let question = server.recv().await?;
/// assert_eq!((&question[..], question.from()), (&b"question"[..], Some(client.local_addr()?)));
/// server.send_to(b"answer", client.local_addr()?).await?;
/// assert_eq!(&client.recv().await?[..], b"answer");
/// # quoit::Result::Ok(()) })??;
/// # quoit::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    inner: Rc<UdpInner>,
}

struct UdpInner {
    core: Rc<Core>,
    handle: Handle,
    inbox: Inbox<Datagram>,
    paused: Cell<bool>,
    receive_max: u32,
}

impl UdpSocket {
    /// A socket bound to an address: a text such as `"127.0.0.1:0"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(addr: impl ToAddr) -> Result<UdpSocket> {
        UdpSocket::bind_with(addr, BindOptions::new()).await
    }

    /// The same with options.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind_with(addr: impl ToAddr, options: BindOptions) -> Result<UdpSocket> {
        UdpSocket::open(typed::ip_addr(addr)?, options).await
    }

    /// A socket, at an address of the kernel's choice, that sends to one peer and takes what that one sends only.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(peer: impl ToAddr) -> Result<UdpSocket> {
        let peer = typed::ip_addr(peer)?;
        let any: IpAddr = match typed::to_ip(peer)? {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        UdpSocket::open(SocketAddr::new(any, 0).into(), BindOptions::new().peer(peer)).await
    }

    async fn open(addr: Addr, options: BindOptions) -> Result<UdpSocket> {
        let core = current();
        let bind = sys::quoit_op { opcode: sys::QUOIT_OP_BIND, ..Default::default() };
        let bind = Op::start(&core, bind, |op| core.ops().bind_to(addr, options, op.user_data));
        let handle = result_with_value(bind).await?;
        let (inbox, paused, receive_max) = (Inbox::new(), Cell::new(false), options.receive_max);
        let inner = UdpInner { core, handle, inbox, paused, receive_max };
        Ok(UdpSocket { inner: Rc::new(inner) })
    }

    /// The next datagram; one without bytes is a datagram too. What comes while nobody waits is kept for the next call, so
    /// dropping the future loses nothing.
    ///
    /// # Errors
    /// `ECONNREFUSED` when the peer of a connected socket refused what was sent; the socket goes on.
    pub async fn recv(&self) -> Result<Datagram> {
        let inner = &self.inner;
        poll_fn(|context| {
            if let Some(datagram) = inner.inbox.items.borrow_mut().pop_front() {
                return Poll::Ready(Ok(datagram));
            }
            inner.resume();
            if let Some(error) = inner.inbox.end.take() {
                return Poll::Ready(Err(error));
            }
            if inner.core.is_closed() {
                return Poll::Ready(Err(Error::CLOSED));
            }
            inner.inbox.wait(context.waker());
            if !inner.inbox.armed.replace(true) {
                let sink: Rc<dyn Sink> = Rc::clone(inner) as Rc<dyn Sink>;
                let flags = sys::QUOIT_OPF_MULTI | sys::QUOIT_OPF_KEEP;
                let receive = op(sys::QUOIT_OP_RECVMSG, inner.handle, 0);
                inner.core.start_many(sys::quoit_op { flags, len: inner.receive_max, ..receive }, sink);
            }
            Poll::Pending
        })
        .await
    }

    /// Sends one datagram to an address; gives its length. The bytes are copied by this call. A datagram goes as a whole or not
    /// at all: dropping the future asks it not to, if it has not gone yet.
    pub fn send_to(&self, bytes: &[u8], to: impl ToAddr) -> impl Future<Output = Result<usize>> {
        let op = match typed::ip_addr(to) {
            Ok(to) => self.start(bytes, Some(to)),
            Err(error) => Op::refused(&self.inner.core, self.op(), Owned::None, error),
        };
        sent(op)
    }

    /// Sends one datagram to the peer of a connected socket.
    pub fn send(&self, bytes: &[u8]) -> impl Future<Output = Result<usize>> {
        sent(self.start(bytes, None))
    }

    /// Sends the bytes of a datagram back to who sent them, from where they lie.
    pub fn send_back(&self, datagram: Datagram) -> impl Future<Output = Result<usize>> {
        let mut send = self.op();
        let op = if datagram.bytes.describe_kept(&mut send) {
            // SAFETY: the op names a kept buffer, which the slot holds until the last event.
            unsafe { Op::owning(&self.inner.core, send, Owned::Lease(datagram.bytes)) }
        } else {
            self.start(&datagram, Some(datagram.from))
        };
        sent(op)
    }

    fn op(&self) -> sys::quoit_op {
        op(sys::QUOIT_OP_SENDMSG, self.inner.handle, 0)
    }

    fn start(&self, bytes: &[u8], to: Option<Addr>) -> Op {
        let core = &self.inner.core;
        Op::start(core, self.op(), |op| core.ops().push_to_peer(op, bytes, to.as_ref()))
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        typed::to_ip(self.inner.core.ops().local_addr(self.inner.handle)?)
    }

    /// The address of a connected socket's peer.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        typed::to_ip(self.inner.core.ops().peer_addr(self.inner.handle)?)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.inner.handle
    }
}

async fn sent(op: Op) -> Result<usize> {
    let (_, done) = op.await;
    check_event(done.event.result).map(|count| count as usize)
}

impl UdpInner {
    fn resume(&self) {
        if self.paused.replace(false) {
            self.tell(sys::QUOIT_OP_RECV_RESUME);
        }
    }

    fn tell(&self, opcode: u32) {
        let flags = sys::QUOIT_OPF_QUIET;
        self.core.tell(sys::quoit_op { flags, ..op(opcode, self.handle, 0) });
    }
}

impl Sink for UdpInner {
    fn event(&self, core: &Core, event: &sys::quoit_event) {
        if event.flags & sys::QUOIT_EVF_MORE == 0 {
            self.inbox.armed.set(false);
        }
        match check_event(event.result) {
            Ok(whole) => {
                let at = (core.ops().batch().recv_base + event.value) as *const sys::quoit_addr;
                // SAFETY: the event is of this turn, so the address beside its bytes is lent too; it is aligned to 8.
                let from = Addr { raw: unsafe { at.read() } };
                // Made in any case: a kept buffer goes back when its lease is dropped.
                let datagram =
                    Datagram { bytes: Lease::from_event(&self.core, event), from, whole: whole as usize };
                if !self.inbox.dropped.get() {
                    self.inbox.items.borrow_mut().push_back(datagram);
                }
            }
            Err(error) => self.inbox.end.set(Some(error)),
        }
        let full = self.inbox.items.borrow().len() >= WAITING_MAX;
        if full && self.inbox.armed.get() && !self.paused.replace(true) {
            self.tell(sys::QUOIT_OP_RECV_PAUSE);
        }
        self.inbox.wake();
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.inner.inbox.dropped.set(true);
        drop(self.inner.inbox.items.take());
        self.inner.core.close(self.inner.handle, false);
    }
}

impl std::fmt::Debug for UdpInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpInner").field("handle", &self.handle).finish_non_exhaustive()
    }
}
