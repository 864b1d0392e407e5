// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors over Unix streams: each goes with bytes of the stream, and comes with bytes of it.

use super::sends::Send;
use super::{Stream, UnixStream};
use crate::error::{check_event, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::rt::core::Core;
use crate::rt::inbox::Inbox;
use crate::rt::slots::{Owned, Sink};
use quoit_sys as sys;
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

/// Bytes that came, and the descriptors that came with them.
#[derive(Debug)]
pub struct Passed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The descriptors, close-on-exec, in the order in which they were sent.
    pub fds: Vec<OwnedFd>,
    /// Who made the peer's end of the stream; none for bytes that a [`recv`](Stream::recv) had brought.
    pub peer: Option<Credentials>,
    /// More descriptors came than one message may bring; the others are closed.
    pub truncated: bool,
}

/// A process, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its number.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What came with descriptors and was not taken yet.
pub(super) struct FdInbox {
    core: Rc<Core>,
    handle: Handle,
    inbox: Inbox<Passed>,
    eof: Cell<bool>,
}

impl FdInbox {
    pub(super) fn has_any(&self) -> bool {
        self.inbox.is_armed() || !self.inbox.is_empty()
    }

    fn start(self: &Rc<FdInbox>) {
        let sink: Rc<dyn Sink> = Rc::clone(self) as Rc<dyn Sink>;
        self.core.start_many(op(sys::QUOIT_OP_RECV_FD, self.handle, 0), sink);
    }

    /// What an event of this turn brings.
    fn read(&self, event: &sys::quoit_event) -> Passed {
        let base = self.core.ops().batch().recv_base;
        let words = (base + event.value) as *const i32;
        let bytes = (base + event.offset) as *const u8;
        // SAFETY: the event is of this turn, so both are lent: its bytes, and three words with as many behind them as it has
        // descriptors, each of which is open and becomes ours.
        unsafe {
            let word = |index: usize| words.add(index).read_unaligned();
            let fds = (0..event.aux as usize).map(|index| OwnedFd::from_raw_fd(word(3 + index)));
            Passed {
                bytes: std::slice::from_raw_parts(bytes, event.len as usize).to_vec(),
                fds: fds.collect(),
                peer: Some(Credentials { pid: word(0), uid: word(1) as u32, gid: word(2) as u32 }),
                truncated: event.flags & sys::QUOIT_EVF_TRUNC != 0,
            }
        }
    }
}

impl Sink for FdInbox {
    fn event(&self, _: &Core, event: &sys::quoit_event) {
        self.inbox.begin_event(event);
        match check_event(event.result) {
            Ok(_) if event.len > 0 => self.inbox.items.borrow_mut().push_back(self.read(event)),
            Ok(_) => {}
            Err(error) => self.inbox.fail(error),
        }
        self.eof.set(event.flags & sys::QUOIT_EVF_EOF != 0);
        self.inbox.end_event();
    }
}

impl UnixStream {
    /// Sends bytes, at least one, and a descriptor with the first of them; gives how many left. The descriptor is duplicated and the
    /// bytes are copied by this call. In the order of other sends; dropping the future is as for [`Stream::send`].
    ///
    /// ```
    /// # use quoit::net::UnixStream;
    /// # use std::{io::Read, os::fd::AsFd};
    /// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
    /// # executor.block_on(async {
    /// # let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// let (near, far) = (UnixStream::from_std(near).await?, UnixStream::from_std(far).await?);
    /// let file = std::fs::File::open("/proc/self/stat")?;
    /// near.send_fd(b"a file", file.as_fd()).await?;
    /// let mut passed = far.recv_with_fds().await?.expect("bytes");
    /// assert_eq!(passed.bytes, b"a file");
    /// let mut text = String::new();
    /// std::fs::File::from(passed.fds.remove(0)).read_to_string(&mut text)?;
    /// assert!(!text.is_empty());
    /// # quoit::Result::Ok(()) })??;
    /// # quoit::Result::Ok(())
    /// ```
    pub fn send_fd(&self, bytes: &[u8], fd: BorrowedFd<'_>) -> impl Future<Output = Result<usize>> {
        let stream: &Stream = &self.0;
        let ops = stream.inner.core.ops();
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let send = op(sys::QUOIT_OP_SEND_FD, stream.inner.handle, 0);
        let send = sys::quoit_op { len, offset: i64::from(fd.as_raw_fd()), ..send };
        let (op, number) = stream.start_with(send, Owned::None, |op| {
            ops.push_with(op, bytes);
            // The library duplicates the descriptor when it takes the op, and we may keep it no longer than this call.
            ops.submit();
        });
        let send = Send::new(op, &stream.inner.sends, number, bytes.len(), |_| ());
        async { send.await.0 }
    }

    /// The next bytes and the descriptors that came with them, or none at the stream's end. What comes while nobody waits is kept
    /// for the next call, so dropping the future loses nothing.
    ///
    /// A stream receives with this or with [`Stream::recv`], which drops descriptors: bytes that it has brought come first. While this
    /// waits, or was dropped while it did, that one ends with `QUOIT_E_BUSY`.
    pub async fn recv_with_fds(&self) -> Result<Option<Passed>> {
        let inner = &self.0.inner;
        let passed = inner.passed.get_or_init(|| {
            let (core, handle) = (Rc::clone(&inner.core), inner.handle);
            Rc::new(FdInbox { core, handle, inbox: Inbox::new(), eof: Cell::new(false) })
        });
        if !passed.has_any() {
            inner.inbox.stop(&inner.core, inner.handle, sys::QUOIT_OP_RECV).await;
            if let Some(lease) = inner.pop_received() {
                return Ok(Some(Passed {
                    bytes: lease.to_vec(),
                    fds: Vec::new(),
                    peer: None,
                    truncated: false,
                }));
            }
        }
        poll_fn(|context| {
            if passed.inbox.is_empty() && (passed.eof.get() || inner.eof.get()) {
                return Poll::Ready(Ok(None));
            }
            passed.inbox.poll_next(&inner.core, context, || passed.start()).map_ok(Some)
        })
        .await
    }
}
