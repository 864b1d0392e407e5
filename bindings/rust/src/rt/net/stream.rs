// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected streams.

use super::fds::FdInbox;
use super::sends::{of_buffer, DroppedSend, Send, Sends};
use super::{result_with_value, ReadHalf, WriteHalf};
use crate::addr::{Addr, ToAddr};
use crate::ask::{nanos, shutdown_arg};
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::{op, Plain};
use crate::rt::core::{current, Core};
use crate::rt::inbox::Inbox;
use crate::rt::lease::{Lease, SendBuf};
use crate::rt::op::{result_of, Op};
use crate::rt::slots::{Owned, Sink};
use quoit_sys as sys;
use std::cell::{Cell, OnceCell};
use std::future::{poll_fn, Future};
use std::net::Shutdown;
use std::rc::Rc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

/// Received bytes that may wait for a call of recv (kept memory has a cap of its own).
const RECEIVED_MAX: usize = 256 * 1024;

/// A connected stream. Receiving and sending may go on at the same time, also from several tasks that share it in an `Rc`.
/// Dropping it sends what is queued, then closes it.
pub struct Stream {
    pub(super) inner: Rc<StreamInner>,
}

pub(super) struct StreamInner {
    pub(super) core: Rc<Core>,
    pub(super) handle: Handle,
    pub(super) inbox: Inbox<Lease>,
    /// What came with descriptors, once that was asked for.
    pub(super) passed: OnceCell<Rc<FdInbox>>,
    waiting_bytes: Cell<usize>,
    paused: Cell<bool>,
    pub(super) eof: Cell<bool>,
    /// A close has been asked for, or it was detached, so dropping must not ask again.
    pub(super) closed: Cell<bool>,
    pub(super) sends: Rc<Sends>,
    #[cfg(any(feature = "futures-io", feature = "tokio-io"))]
    pub(super) written: Rc<super::written::Written>,
}

impl Stream {
    pub(super) fn new(core: &Rc<Core>, handle: Handle) -> Stream {
        let inner = StreamInner {
            core: Rc::clone(core),
            handle,
            inbox: Inbox::new(),
            passed: OnceCell::new(),
            waiting_bytes: Cell::new(0),
            paused: Cell::new(false),
            eof: Cell::new(false),
            closed: Cell::new(false),
            sends: Rc::default(),
            #[cfg(any(feature = "futures-io", feature = "tokio-io"))]
            written: Rc::default(),
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
        if !poll_fn(|context| inner.poll_received(context)).await? {
            return Ok(None);
        }
        Ok(inner.pop_received())
    }

    /// Copies what has come into memory of the caller, as much as fits, once there is something; 0 is the stream's end, or no
    /// room. Dropping the future loses nothing: bytes are taken only when it is done.
    pub async fn read(&self, into: &mut [u8]) -> Result<usize> {
        poll_fn(|context| self.inner.poll_read(context, into)).await
    }

    /// Appends what comes until the vector has `len` bytes; false if the stream ends before. Dropping the future loses
    /// nothing: what was taken is in the vector, so the same call goes on from there.
    pub async fn read_until_len(&self, bytes: &mut Vec<u8>, len: usize) -> Result<bool> {
        while bytes.len() < len {
            if !poll_fn(|context| self.inner.poll_received(context)).await? {
                return Ok(false);
            }
            self.inner.take(len - bytes.len(), |piece| bytes.extend_from_slice(piece));
        }
        Ok(true)
    }

    /// Sends bytes, all of them. The operation owns them; they come back with the number that was sent or the error.
    ///
    /// The send begins with this call. Dropping the future asks it to end; how much of it then went is told by
    /// [`Stream::settle`], and until that was asked other sends end with `QUOIT_E_BUSY`: nothing follows half a message
    /// unawares.
    pub fn send<B: SendBuf>(&self, bytes: B) -> impl Future<Output = (Result<usize>, B::Back)> {
        let mut send = op(sys::QUOIT_OP_SEND, self.inner.handle, 0);
        bytes.describe(&mut send);
        let len = send.len as usize;
        // SAFETY: describe names memory that into_owned moves into the slot without changing its address.
        let (op, number) = unsafe { self.start(send, bytes.into_owned()) };
        of_buffer::<B>(op, &self.inner.sends, number, len)
    }

    /// The same, of which only success or failure is told.
    pub async fn write_all<B: SendBuf>(&self, bytes: B) -> Result<()> {
        self.send(bytes).await.0.map(|_| ())
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
        let len = pieces.iter().map(Vec::len).sum();
        let send = sys::quoit_op {
            flags: sys::QUOIT_OPF_IOV | sys::QUOIT_OPF_BORROW,
            addr: slices.as_ptr() as u64,
            len: slices.len() as u32,
            ..op(sys::QUOIT_OP_SENDV, self.inner.handle, 0)
        };
        // SAFETY: the pieces and the list of them are vectors, whose memory stays where it is when they are moved.
        let (op, number) = unsafe { self.start(send, Owned::Many(pieces, slices)) };
        Send::new(op, &self.inner.sends, number, len, |owned| match owned {
            Owned::Many(pieces, _) => pieces,
            _ => Vec::new(),
        })
    }

    /// # Safety
    /// As for [`Op::owning`].
    unsafe fn start(&self, send: sys::quoit_op, owned: Owned) -> (Op, Result<u64>) {
        // SAFETY: by the caller's promise the memory stays where it is; the slot has it until the last event.
        self.start_with(send, owned, |op| unsafe { self.inner.core.ops().push_raw(op) })
    }

    /// Begins a send that `push` hands over, unless dropped ones forbid it.
    pub(super) fn start_with(
        &self,
        send: sys::quoit_op,
        owned: Owned,
        push: impl FnOnce(sys::quoit_op),
    ) -> (Op, Result<u64>) {
        let number = self.inner.sends.begin();
        let op = match number {
            Ok(_) => Op::with(&self.inner.core, send, owned, push),
            Err(error) => Op::refused(&self.inner.core, send, owned, error),
        };
        (op, number)
    }

    /// Waits for the end of sends whose futures were dropped, and tells how far each came, in the order in which they began.
    /// Then the stream takes sends again. Dropping the future loses nothing.
    ///
    /// ```
    /// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
    /// # executor.block_on(async {
    /// # let listener = quoit::net::Listener::bind("127.0.0.1:0").await?;
    /// let stream = quoit::net::Stream::connect(listener.local_addr()?).await?;
    /// drop(stream.send("never awaited"));
    /// assert_eq!(stream.send("more").await.0, Err(quoit::Error::BUSY));
    /// let dropped = stream.settle().await?;
    /// // Goes on where that one ended.
    /// stream.send(&b"never awaited"[dropped[0].sent..]).await.0?;
    /// # quoit::Result::Ok(()) })??;
    /// # quoit::Result::Ok(())
    /// ```
    pub async fn settle(&self) -> Result<Vec<DroppedSend>> {
        poll_fn(|context| match self.inner.sends.poll_settled(context) {
            Poll::Pending if self.inner.core.is_closed() => Poll::Ready(Err(Error::CLOSED)),
            other => other.map(Ok),
        })
        .await
    }

    /// Ends one direction, or both, after what is queued.
    pub fn shutdown(&self, how: Shutdown) -> impl Future<Output = Result<()>> {
        let shutdown = op(sys::QUOIT_OP_SHUTDOWN, self.inner.handle, 0);
        let shutdown = Op::plain(&self.inner.core, sys::quoit_op { arg: shutdown_arg(how), ..shutdown });
        async { result_of(shutdown).await.map(|_| ()) }
    }

    /// The same for sending, in the background. If it is refused, the stream has ended already.
    pub(super) fn end_sending(&self) {
        let shutdown = op(sys::QUOIT_OP_SHUTDOWN, self.inner.handle, 0);
        let flags = sys::QUOIT_OPF_QUIET;
        self.inner.core.tell(sys::quoit_op { flags, arg: shutdown_arg(Shutdown::Write), ..shutdown });
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

    /// Two halves, for two tasks. The stream closes when both are dropped.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        let stream = Rc::new(self);
        (ReadHalf::new(&stream), WriteHalf::new(stream))
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

impl StreamInner {
    /// Ready when something waits to be taken: true, or false at the end.
    pub(super) fn poll_received(self: &Rc<StreamInner>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        if !self.inbox.is_empty() {
            return Poll::Ready(Ok(true));
        }
        if self.eof.get() {
            return Poll::Ready(Ok(false));
        }
        if self.has_passed() {
            return Poll::Ready(Err(Error::BUSY));
        }
        if let Some(error) = self.inbox.end.get() {
            return Poll::Ready(Err(error));
        }
        if self.core.is_closed() {
            return Poll::Ready(Err(Error::CLOSED));
        }
        self.inbox.wait_for_more(context, || {
            let sink: Rc<dyn Sink> = Rc::clone(self) as Rc<dyn Sink>;
            let flags = sys::QUOIT_OPF_MULTI | sys::QUOIT_OPF_KEEP;
            self.core.start_many(sys::quoit_op { flags, ..op(sys::QUOIT_OP_RECV, self.handle, 0) }, sink);
        });
        Poll::Pending
    }

    /// The first piece that waits, if any does.
    pub(super) fn pop_received(&self) -> Option<Lease> {
        let lease = self.inbox.pop()?;
        self.taken(lease.len());
        Some(lease)
    }

    /// True while descriptors are received instead, or wait to be taken.
    pub(super) fn has_passed(&self) -> bool {
        self.passed.get().is_some_and(|passed| passed.has_any())
    }

    /// Takes up to so many of the bytes that wait, a piece at a time.
    fn take(&self, count: usize, mut give: impl FnMut(&[u8])) -> usize {
        let mut done = 0;
        while done < count {
            let Some(mut lease) = self.inbox.pop() else { break };
            let part = lease.len().min(count - done);
            give(&lease[..part]);
            done += part;
            lease.advance(part);
            if !lease.is_empty() {
                self.inbox.items.borrow_mut().push_front(lease);
            }
        }
        self.taken(done);
        done
    }

    /// Gives up to so many of the bytes that come, a piece at a time; ready with how many. 0 is the end, or no room.
    pub(super) fn poll_read_with(
        self: &Rc<StreamInner>,
        context: &mut Context<'_>,
        room: usize,
        give: impl FnMut(&[u8]),
    ) -> Poll<Result<usize>> {
        if room == 0 || !ready!(self.poll_received(context))? {
            return Poll::Ready(Ok(0));
        }
        Poll::Ready(Ok(self.take(room, give)))
    }

    pub(super) fn poll_read(
        self: &Rc<StreamInner>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize>> {
        let mut at = 0;
        self.poll_read_with(context, into.len(), |piece| {
            into[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })
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
        self.inbox.begin_event(event);
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
            Err(error) => self.inbox.fail(error),
        }
        if event.flags & sys::QUOIT_EVF_EOF != 0 {
            self.eof.set(true);
        } else if self.waiting_bytes.get() > RECEIVED_MAX
            && self.inbox.is_armed()
            && !self.paused.replace(true)
        {
            let pause = op(sys::QUOIT_OP_RECV_PAUSE, self.handle, 0);
            core.tell(sys::quoit_op { flags: sys::QUOIT_OPF_QUIET, ..pause });
        }
        self.inbox.end_event();
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

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("handle", &self.inner.handle).finish_non_exhaustive()
    }
}
