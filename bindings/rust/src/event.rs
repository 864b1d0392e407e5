// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events, what a program is told, and the batch that a turn brings.

use crate::addr::Addr;
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::Ops;
use crate::options::Message;
use quoit_sys as sys;
use std::ops::Deref;

/// What an event answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Kind {
    Nop,
    Listen,
    Accept,
    Connect,
    Recv,
    RecvPause,
    RecvResume,
    Send,
    Shutdown,
    Close,
    Cancel,
    Timer,
    Post,
    Poll,
    Open,
    Read,
    Write,
    Fsync,
    Offload,
    Keep,
    Release,
    Bind,
    RecvMsg,
    SendMsg,
    Multicast,
    SocketSet,
    Adopt,
    Detach,
    SendFd,
    RecvFd,
    Move,
    Channel,
    ChannelSend,
    ChannelRecv,
    /// A message that another worker or thread posted.
    Message,
    /// A stream came from another worker ([`Ops::move_to`](crate::Ops::move_to) there): object its handle here, source the one it had.
    Moved,
    /// The worker drains ([`WorkerHandle::drain`](crate::WorkerHandle::drain)): at first with more to come and the number of
    /// accepted streams as value, at the end with how it went and the number of streams that are cut off.
    Drain,
    /// One that this version does not know: ignore it.
    Other(u32),
}

impl Kind {
    fn from_number(number: u32) -> Kind {
        match number {
            sys::QUOIT_OP_NOP => Kind::Nop,
            sys::QUOIT_OP_LISTEN => Kind::Listen,
            sys::QUOIT_OP_ACCEPT => Kind::Accept,
            sys::QUOIT_OP_CONNECT => Kind::Connect,
            sys::QUOIT_OP_RECV => Kind::Recv,
            sys::QUOIT_OP_RECV_PAUSE => Kind::RecvPause,
            sys::QUOIT_OP_RECV_RESUME => Kind::RecvResume,
            sys::QUOIT_OP_SEND | sys::QUOIT_OP_SENDV => Kind::Send,
            sys::QUOIT_OP_SHUTDOWN => Kind::Shutdown,
            sys::QUOIT_OP_CLOSE => Kind::Close,
            sys::QUOIT_OP_CANCEL => Kind::Cancel,
            sys::QUOIT_OP_TIMER => Kind::Timer,
            sys::QUOIT_OP_POST => Kind::Post,
            sys::QUOIT_OP_POLL => Kind::Poll,
            sys::QUOIT_OP_OPEN => Kind::Open,
            sys::QUOIT_OP_READ => Kind::Read,
            sys::QUOIT_OP_WRITE => Kind::Write,
            sys::QUOIT_OP_FSYNC => Kind::Fsync,
            sys::QUOIT_OP_OFFLOAD => Kind::Offload,
            sys::QUOIT_OP_KEEP => Kind::Keep,
            sys::QUOIT_OP_RELEASE => Kind::Release,
            sys::QUOIT_OP_BIND => Kind::Bind,
            sys::QUOIT_OP_RECVMSG => Kind::RecvMsg,
            sys::QUOIT_OP_SENDMSG => Kind::SendMsg,
            sys::QUOIT_OP_MULTICAST => Kind::Multicast,
            sys::QUOIT_OP_SOCKET_SET => Kind::SocketSet,
            sys::QUOIT_OP_ADOPT => Kind::Adopt,
            sys::QUOIT_OP_DETACH => Kind::Detach,
            sys::QUOIT_OP_SEND_FD => Kind::SendFd,
            sys::QUOIT_OP_RECV_FD => Kind::RecvFd,
            sys::QUOIT_OP_MOVE => Kind::Move,
            sys::QUOIT_OP_CHANNEL => Kind::Channel,
            sys::QUOIT_OP_CHANNEL_SEND => Kind::ChannelSend,
            sys::QUOIT_OP_CHANNEL_RECV => Kind::ChannelRecv,
            sys::QUOIT_KIND_MESSAGE => Kind::Message,
            sys::QUOIT_KIND_MOVED => Kind::Moved,
            sys::QUOIT_KIND_DRAIN => Kind::Drain,
            other => Kind::Other(other),
        }
    }
}

/// Names received bytes, to send them from where they lie. Plain data: once the loan has ended, and unless the bytes are
/// [kept](crate::Ops::keep), a send of them is an error, never other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) buffer: Handle,
}

impl Received {
    /// How many bytes.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// A part of them.
    ///
    /// # Panics
    /// If the range does not lie inside.
    pub fn slice(self, range: std::ops::Range<usize>) -> Received {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        let (offset, len) = (self.offset + range.start as u64, range.len() as u32);
        Received { offset, len, buffer: self.buffer }
    }

    /// The buffer that holds them, to release it when it was kept.
    pub fn buffer(self) -> Handle {
        self.buffer
    }
}

/// One event of a batch. It and its data end with the batch.
#[derive(Debug, Clone, Copy)]
pub struct Event<'b> {
    raw: &'b sys::quoit_event,
    recv_base: u64,
}

impl<'b> Event<'b> {
    /// What it answers.
    pub fn kind(&self) -> Kind {
        Kind::from_number(self.raw.kind)
    }

    /// The op's target as given.
    pub fn source(&self) -> Handle {
        Handle::from_raw(self.raw.source)
    }

    /// The op's `user_data`.
    pub fn user_data(&self) -> u64 {
        self.raw.user_data
    }

    /// How it went: a count, or the error.
    pub fn result(&self) -> Result<u64> {
        check_event(self.raw.result)
    }

    /// The error, if it failed.
    pub fn error(&self) -> Option<Error> {
        self.result().err()
    }

    /// The result as it stands; a message's second word.
    pub fn raw_result(&self) -> i64 {
        self.raw.result
    }

    /// A number by kind: a total, bytes done before an error, a message's first word.
    pub fn value(&self) -> u64 {
        self.raw.value
    }

    /// The new object, for kinds that make one.
    pub fn object(&self) -> Handle {
        Handle::from_raw(self.raw.value)
    }

    /// A number by kind: a port, the field that is wrong.
    pub fn aux(&self) -> u32 {
        self.raw.aux
    }

    /// More events of the same operation follow.
    pub fn more(&self) -> bool {
        self.raw.flags & sys::QUOIT_EVF_MORE != 0
    }

    /// The stream or file has ended.
    pub fn eof(&self) -> bool {
        self.raw.flags & sys::QUOIT_EVF_EOF != 0
    }

    /// The datagram was longer than what is here.
    pub fn truncated(&self) -> bool {
        self.raw.flags & sys::QUOIT_EVF_TRUNC != 0
    }

    /// The words of a message, posted or of a channel; none if the event tells something else, such as a channel's end.
    pub fn message(&self) -> Option<Message> {
        let is_message = match self.kind() {
            Kind::Message => true,
            Kind::ChannelRecv => self.raw.flags & sys::QUOIT_EVF_MESSAGE != 0,
            _ => false,
        };
        let raw = self.raw;
        is_message.then_some(Message {
            word1: raw.value,
            word2: raw.result,
            tag: raw.aux,
            user_data: raw.user_data,
        })
    }

    /// Who sent the datagram that it brings; none if it brings none, or one of a socket without a name.
    pub fn peer(&self) -> Option<Addr> {
        if self.kind() != Kind::RecvMsg || self.raw.result < 0 || self.eof() {
            return None;
        }
        let at = (self.recv_base + self.raw.value) as *const sys::quoit_addr;
        // SAFETY: with a datagram the library lends the address that it came from, aligned to 8, until the next turn.
        let peer = Addr { raw: unsafe { at.read() } };
        (peer.raw.len > 0).then_some(peer)
    }

    /// The buffer that holds the bytes.
    pub fn buffer(&self) -> Handle {
        Handle::from_raw(self.raw.buffer)
    }

    /// The bytes that it brings, as something to send.
    pub fn received(&self) -> Received {
        Received { offset: self.raw.offset, len: self.raw.len, buffer: self.buffer() }
    }

    /// The bytes that it brings; empty if none.
    pub fn data(&self) -> &'b [u8] {
        const HERE: u32 = sys::QUOIT_EVF_LENT | sys::QUOIT_EVF_KEPT | sys::QUOIT_EVF_COPIED;
        if self.raw.flags & HERE == 0 || self.raw.len == 0 {
            return &[];
        }
        let at = (self.recv_base + self.raw.offset) as *const u8;
        // SAFETY: the library lends [offset, offset + len) of the receive arena and writes nothing there before the next
        // turn, which the borrow 'b excludes; a release waits for the next turn too (Ops::release).
        unsafe { std::slice::from_raw_parts(at, self.raw.len as usize) }
    }
}

/// What one turn brought, and the way to ask for more. Everything that it lends ends with it.
#[derive(Debug)]
pub struct Batch<'b> {
    ops: &'b Ops,
    events: &'b [sys::quoit_event],
    raw: sys::quoit_batch,
}

impl<'b> Batch<'b> {
    /// # Safety
    /// The first `count` events must be written, and no turn may be made while 'b lasts.
    pub(crate) unsafe fn new(ops: &'b Ops, count: u32) -> Batch<'b> {
        let raw = ops.batch();
        debug_assert!(count <= raw.events_max && raw.stride as usize == size_of::<sys::quoit_event>());
        let first = raw.events as *const sys::quoit_event;
        // SAFETY: the array is at a constant address, its first events are written, and by the caller's promise they stay.
        let events = unsafe { std::slice::from_raw_parts(first, count as usize) };
        Batch { ops, events, raw }
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, in order.
    pub fn events(&self) -> Events<'b> {
        Events { events: self.events.iter(), recv_base: self.raw.recv_base }
    }

    /// Turns made so far.
    pub fn tick(&self) -> u64 {
        self.raw.tick
    }

    /// A signal interrupted the wait.
    pub fn interrupted(&self) -> bool {
        self.raw.flags & sys::QUOIT_BATCH_INTERRUPTED != 0
    }

    /// More events are ready: the next turn does not wait.
    pub fn left(&self) -> bool {
        self.raw.flags & sys::QUOIT_BATCH_LEFT != 0
    }

    /// A stop was asked for and every op has told its last event.
    pub fn drained(&self) -> bool {
        self.raw.flags & sys::QUOIT_BATCH_DRAINED != 0
    }
}

impl Deref for Batch<'_> {
    type Target = Ops;

    fn deref(&self) -> &Ops {
        self.ops
    }
}

impl<'b> IntoIterator for &Batch<'b> {
    type Item = Event<'b>;
    type IntoIter = Events<'b>;

    fn into_iter(self) -> Events<'b> {
        self.events()
    }
}

/// Goes over the events of a batch.
#[derive(Debug, Clone)]
pub struct Events<'b> {
    events: std::slice::Iter<'b, sys::quoit_event>,
    recv_base: u64,
}

impl<'b> Iterator for Events<'b> {
    type Item = Event<'b>;

    fn next(&mut self) -> Option<Event<'b>> {
        let raw = self.events.next()?;
        Some(Event { raw, recv_base: self.recv_base })
    }
}
