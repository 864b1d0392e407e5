// SPDX-License-Identifier: MIT OR Apache-2.0
//! What UDP and Unix datagram sockets have in common.

use super::result_with_value;
use crate::addr::Addr;
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::{op, packet_info};
use crate::options::BindOptions;
use crate::rt::core::{current, Core};
use crate::rt::inbox::Inbox;
use crate::rt::lease::Lease;
use crate::rt::op::{result_of, Op};
use crate::rt::slots::{Owned, Sink};
use quoit_sys as sys;
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;

/// Datagrams that may wait for a call of recv; beyond them the kernel holds what comes, and drops what it cannot hold.
const WAITING_MAX: usize = 128;

/// The error of a receive behind the end of a connection.
const ENOTCONN: i32 = -107;

/// A datagram that came, in the receive buffer that the kernel wrote. The buffer goes back when this is dropped.
#[derive(Debug)]
pub struct Datagram {
    bytes: Lease,
    from: Addr,
    /// Where it was sent to, if the socket tells that.
    to: Option<Addr>,
    whole: usize,
    segment: usize,
}

impl Datagram {
    /// Who sent it; none if it came over a Unix socket.
    pub fn from(&self) -> Option<SocketAddr> {
        self.from.to_socket_addr()
    }

    /// The path of the Unix socket that sent it; none if that has no name.
    pub fn from_path(&self) -> Option<PathBuf> {
        self.from.to_path()
    }

    /// The address that it was sent to, if the socket was bound with [packet info](BindOptions::packet_info).
    pub fn to(&self) -> Option<SocketAddr> {
        self.to?.to_socket_addr()
    }

    /// The index of the interface that it came by, if the socket was bound with [packet info](BindOptions::packet_info).
    pub fn interface(&self) -> Option<u32> {
        self.to.map(|to| to.raw.scope)
    }

    /// How many bytes it had. More than are here if it was longer than a receive buffer.
    pub fn whole_len(&self) -> usize {
        self.whole
    }

    /// True if not all of it is here.
    pub fn is_truncated(&self) -> bool {
        self.whole > self.bytes.len()
    }

    /// The length of each of the datagrams that were [joined](BindOptions::join_segments) here, but of the last; none if it is
    /// one.
    pub fn segment_size(&self) -> Option<usize> {
        (self.segment > 0).then_some(self.segment)
    }

    /// The datagrams that were joined here, in order; one if none were.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let size = self.segment_size().unwrap_or(self.len()).max(1);
        // One without bytes is a datagram too.
        let empty = self.is_empty().then_some(&self[..]);
        self.chunks(size).chain(empty)
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

/// To whom, from where and in what pieces a datagram leaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions {
    to: Option<Addr>,
    segment: u32,
    source: Option<Addr>,
}

impl SendOptions {
    /// One datagram, to the peer of a connected socket.
    pub fn new() -> SendOptions {
        SendOptions::default()
    }

    /// To this address.
    pub fn to(mut self, to: impl Into<Addr>) -> SendOptions {
        self.to = Some(to.into());
        self
    }

    /// Each so many of the bytes are a datagram of their own, at most 65535. The kernel or the device splits them, or they leave one
    /// by one where neither can.
    pub fn segment_size(mut self, bytes: u32) -> SendOptions {
        self.segment = bytes;
        self
    }

    /// From this local address, of a socket that is bound to all of them.
    pub fn source(mut self, ip: IpAddr) -> SendOptions {
        let scope = self.source.map_or(0, |source| source.raw.scope);
        let mut source = Addr::from(SocketAddr::new(ip, 0));
        source.raw.scope = scope;
        self.source = Some(source);
        self
    }

    /// By the interface of this index.
    pub fn interface(mut self, index: u32) -> SendOptions {
        self.source.get_or_insert(Addr::empty()).raw.scope = index;
        self
    }
}

/// A datagram socket. Dropping it sends what is queued, then closes it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub(super) core: Rc<Core>,
    pub(super) handle: Handle,
    pub(super) inbox: Inbox<Datagram>,
    paused: Cell<bool>,
    /// It was detached, so dropping must not close it.
    pub(super) left: Cell<bool>,
    options: BindOptions,
}

impl Socket {
    /// Without an address, which needs a peer, the kernel chooses it.
    pub(super) async fn open(addr: Option<Addr>, options: BindOptions) -> Result<Socket> {
        let core = current();
        let bind = sys::quoit_op { opcode: sys::QUOIT_OP_BIND, ..Default::default() };
        let bind = Op::start(&core, bind, |op| core.ops().bind_to(addr, options, op.user_data));
        let handle = result_with_value(bind).await?;
        Ok(Socket::new(core, handle, options))
    }

    pub(super) fn new(core: Rc<Core>, handle: Handle, options: BindOptions) -> Socket {
        let (inbox, paused, left) = (Inbox::new(), Cell::new(false), Cell::new(false));
        Socket { inner: Rc::new(Inner { core, handle, inbox, paused, left, options }) }
    }

    pub(super) async fn recv(&self) -> Result<Datagram> {
        let inner = &self.inner;
        let start = || {
            let sink: Rc<dyn Sink> = Rc::clone(inner) as Rc<dyn Sink>;
            let flags = sys::QUOIT_OPF_MULTI | sys::QUOIT_OPF_KEEP;
            let receive = op(sys::QUOIT_OP_RECVMSG, inner.handle, 0);
            let len = inner.options.receive_max;
            inner.core.start_many(sys::quoit_op { flags, len, ..receive }, sink);
        };
        poll_fn(|context| {
            if inner.inbox.is_empty() && inner.paused.replace(false) {
                inner.tell(sys::QUOIT_OP_RECV_RESUME);
            }
            inner.inbox.poll_next(&inner.core, context, start)
        })
        .await
    }

    fn op(&self) -> sys::quoit_op {
        op(sys::QUOIT_OP_SENDMSG, self.inner.handle, 0)
    }

    fn start(&self, bytes: &[u8], options: &SendOptions) -> Op {
        let core = &self.inner.core;
        let send = sys::quoit_op { arg: options.segment, ..self.op() };
        let info = options.source.map(packet_info);
        Op::start(core, send, |op| core.ops().push_datagram(op, bytes, options.to.as_ref(), info.as_ref()))
    }

    pub(super) fn send(&self, bytes: &[u8], options: &SendOptions) -> impl Future<Output = Result<usize>> {
        sent(self.start(bytes, options))
    }

    /// The same, unless its address is none.
    pub(super) fn send_to(&self, bytes: &[u8], to: Result<Addr>) -> impl Future<Output = Result<usize>> {
        sent(match to {
            Ok(to) => self.start(bytes, &SendOptions::new().to(to)),
            Err(error) => Op::refused(&self.inner.core, self.op(), Owned::None, error),
        })
    }

    pub(super) fn send_back(&self, datagram: Datagram) -> impl Future<Output = Result<usize>> {
        let mut send = self.op();
        sent(if datagram.bytes.describe_kept(&mut send) {
            // SAFETY: the op names a kept buffer, which the slot holds until the last event.
            unsafe { Op::owning(&self.inner.core, send, Owned::Lease(datagram.bytes)) }
        } else {
            let named = datagram.from.raw.len > 0;
            self.start(&datagram, &SendOptions { to: named.then_some(datagram.from), ..SendOptions::new() })
        })
    }

    /// Joins or leaves a group (`QUOIT_MULTICAST_*`).
    pub(super) fn multicast(
        &self,
        group: IpAddr,
        interface: u32,
        arg: u32,
    ) -> impl Future<Output = Result<()>> {
        let core = &self.inner.core;
        let change = sys::quoit_op { arg, ..op(sys::QUOIT_OP_MULTICAST, self.inner.handle, 0) };
        let change = Op::start(core, change, |op| core.ops().push_group(op, group, interface));
        async { result_of(change).await.map(|_| ()) }
    }

    pub(super) fn local_addr(&self) -> Result<Addr> {
        self.inner.core.ops().local_addr(self.inner.handle)
    }

    pub(super) fn peer_addr(&self) -> Result<Addr> {
        self.inner.core.ops().peer_addr(self.inner.handle)
    }

    pub(super) fn handle(&self) -> Handle {
        self.inner.handle
    }
}

async fn sent(op: Op) -> Result<usize> {
    let (_, done) = op.await;
    check_event(done.event.result).map(|count| count as usize)
}

impl Inner {
    fn tell(&self, opcode: u32) {
        let flags = sys::QUOIT_OPF_QUIET;
        self.core.tell(sys::quoit_op { flags, ..op(opcode, self.handle, 0) });
    }

    fn read(&self, event: &sys::quoit_event, whole: u64) -> Datagram {
        let at = (self.core.ops().batch().recv_base + event.value) as *const sys::quoit_addr;
        // SAFETY: the event is of this turn, so the addresses beside its bytes are lent too, the second one where packet info was
        // asked for; they are aligned to 8.
        let (from, to) =
            unsafe { (at.read(), self.options.has_packet_info().then(|| Addr { raw: at.add(1).read() })) };
        Datagram {
            bytes: Lease::from_event(&self.core, event),
            from: Addr { raw: from },
            to,
            whole: whole as usize,
            segment: event.aux as usize,
        }
    }
}

impl Sink for Inner {
    fn event(&self, _: &Core, event: &sys::quoit_event) {
        self.inbox.begin_event(event);
        match check_event(event.result) {
            // A connection of messages, adopted as a datagram socket, has an end: that brings none.
            Ok(_) if event.flags & sys::QUOIT_EVF_EOF != 0 => self.inbox.fail(Error::from_status(ENOTCONN)),
            Ok(whole) => {
                // Made in any case: a kept buffer goes back when its lease is dropped.
                let datagram = self.read(event, whole);
                if !self.inbox.dropped.get() {
                    self.inbox.items.borrow_mut().push_back(datagram);
                }
            }
            Err(error) => self.inbox.fail(error),
        }
        let full = self.inbox.items.borrow().len() >= WAITING_MAX;
        if full && self.inbox.is_armed() && !self.paused.replace(true) {
            self.tell(sys::QUOIT_OP_RECV_PAUSE);
        }
        self.inbox.end_event();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.inner.inbox.dropped.set(true);
        drop(self.inner.inbox.items.take());
        if !self.inner.left.get() {
            self.inner.core.close(self.inner.handle, false);
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("handle", &self.handle).finish_non_exhaustive()
    }
}
