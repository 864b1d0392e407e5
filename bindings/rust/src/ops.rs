// SPDX-License-Identifier: MIT OR Apache-2.0
//! The op array of a worker: what a program asks is written here and taken by the next turn.

use crate::addr::Addr;
use crate::error::{check, Error, Result};
use crate::handle::Handle;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// Asks things of a worker. Each method writes one operation; the next turn hands all of them to the kernel at once. What
/// an operation ends with comes as an event with its `user_data`, mistakes included.
///
/// Payloads are copied while the method runs, unless its text says otherwise.
#[derive(Debug)]
pub struct Ops {
    worker: NonNull<sys::quoit_worker>,
    batch: NonNull<sys::quoit_batch>,
    nops: Cell<u32>,
    scratch_used: Cell<u32>,
    releases: RefCell<Vec<Handle>>,
    /// A submission in mid-batch failed: told by the next turn.
    failed: Cell<Option<Error>>,
}

/// Bytes of an address beside a payload.
const PEER_LEN: usize = size_of::<sys::quoit_addr>();

/// Positions in the scratch region are multiples of this, as any struct wants.
const ALIGN: u32 = 16;

impl Ops {
    /// # Safety
    /// The worker must be live for as long as the value is used, and used on its owner thread only, by this value only.
    pub(crate) unsafe fn new(worker: NonNull<sys::quoit_worker>) -> Result<Ops> {
        // SAFETY: the worker is live.
        let batch = unsafe { sys::quoit_worker_batch(worker.as_ptr()) };
        let batch = NonNull::new(batch).ok_or(Error::CLOSED)?;
        Ok(Ops {
            worker,
            batch,
            nops: Cell::new(0),
            scratch_used: Cell::new(0),
            releases: RefCell::new(Vec::new()),
            failed: Cell::new(None),
        })
    }

    pub(crate) fn worker(&self) -> *mut sys::quoit_worker {
        self.worker.as_ptr()
    }

    /// The batch as it is now. A copy: the library writes the original in each turn.
    pub(crate) fn batch(&self) -> sys::quoit_batch {
        // SAFETY: the batch is at a constant address for the worker's life; only this thread's calls write it.
        unsafe { self.batch.as_ptr().read() }
    }

    /// The worker's handle.
    pub fn worker_handle(&self) -> Handle {
        Handle::from_raw(self.batch().worker)
    }

    /// Monotonic nanoseconds at this batch.
    pub fn now_ns(&self) -> u64 {
        self.batch().now_ns
    }

    /// Writes an operation as it stands.
    ///
    /// # Safety
    /// What the op points at must be as `quoit/op.h` wants it: live until the next turn or submission has taken the op, and,
    /// with BORROW, untouched until its last event. RELEASE of a buffer whose bytes are still being read is not allowed.
    pub unsafe fn push_raw(&self, op: sys::quoit_op) {
        let batch = self.batch();
        if self.nops.get() >= batch.ops_max {
            self.submit();
        }
        let index = self.nops.get();
        // SAFETY: the array has ops_max elements of 64 bytes at a constant address, and index is below ops_max.
        unsafe { (batch.ops as *mut sys::quoit_op).add(index as usize).write(op) };
        self.nops.set(index + 1);
    }

    /// For ops that point at nothing outside the arenas, so that nothing can go wrong but an error event.
    pub(crate) fn push(&self, op: sys::quoit_op) {
        debug_assert!(op.flags & sys::QUOIT_OPF_BORROW == 0);
        // SAFETY: by the condition above the op holds no pointer; offsets and handles are checked by the library.
        unsafe { self.push_raw(op) };
    }

    /// Has the ops so far taken now, in mid-batch: no system call, no events, loans stay. The array is then empty.
    pub fn submit(&self) {
        let nops = self.nops.replace(0);
        // SAFETY: the first nops ops of the array are written.
        if let Err(error) = check(unsafe { sys::quoit_submit(self.worker(), nops) }) {
            self.failed.set(Some(error));
        }
    }

    /// Takes room in the scratch region, while it has any.
    fn reserve(&self, len: usize) -> Option<u64> {
        let batch = self.batch();
        let used = self.scratch_used.get();
        let len = u32::try_from(len).ok().filter(|len| batch.scratch_len.saturating_sub(used) >= *len)?;
        self.scratch_used.set((used + len).next_multiple_of(ALIGN).min(batch.scratch_len));
        Some(batch.scratch_off + u64::from(used))
    }

    /// Pushes an op whose `addr` names the bytes.
    pub(crate) fn push_with(&self, op: sys::quoit_op, bytes: &[u8]) {
        self.push_at(op, self.reserve(bytes.len()), bytes);
    }

    /// The same for plain data that names parts of itself: `link` is told where it will lie.
    pub(crate) fn push_block<T: Plain>(
        &self,
        mut op: sys::quoit_op,
        mut block: T,
        link: impl FnOnce(&mut sys::quoit_op, &mut T, u64),
    ) {
        let room = self.reserve(size_of::<T>());
        let at = room.unwrap_or((&raw const block) as u64);
        link(&mut op, &mut block, at);
        self.push_at(op, room, block.bytes());
    }

    /// A datagram of these bytes for a peer, if it is given.
    pub(crate) fn push_to_peer(&self, mut op: sys::quoit_op, bytes: &[u8], peer: Option<&Addr>) {
        op.len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let Some(peer) = peer else { return self.push_with(op, bytes) };
        let room = self.reserve(ALIGN as usize + PEER_LEN + bytes.len());
        if let Some(offset) = room {
            // Never the arena's first byte: an address at 0 is none.
            let offset = offset + u64::from(ALIGN);
            // SAFETY: room is as many bytes of the scratch region, which this thread may write until the next turn.
            unsafe {
                let to = (self.batch().send_base + offset) as *mut u8;
                to.copy_from_nonoverlapping(peer.raw.bytes().as_ptr(), PEER_LEN);
                to.add(PEER_LEN).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            op.arg2 = offset;
            op.addr = offset + PEER_LEN as u64;
            op.flags |= sys::QUOIT_OPF_ARENA_SEND;
            self.push(op);
        } else {
            op.arg2 = (&raw const peer.raw) as u64;
            op.addr = bytes.as_ptr() as u64;
            // SAFETY: both live until the submission has taken the op with all that it points at.
            unsafe { self.push_raw(op) };
            self.submit();
        }
    }

    /// With room the bytes are copied there; without, the library reads them where they are before this returns.
    fn push_at(&self, mut op: sys::quoit_op, room: Option<u64>, bytes: &[u8]) {
        if let Some(offset) = room {
            // SAFETY: room is as many bytes of the scratch region, which this thread may write until the next turn.
            unsafe {
                let to = (self.batch().send_base + offset) as *mut u8;
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            op.addr = offset;
            op.flags |= sys::QUOIT_OPF_ARENA_SEND;
            self.push(op);
        } else {
            op.addr = bytes.as_ptr() as u64;
            // SAFETY: the bytes live until the submission has taken the op with all that it points at.
            unsafe { self.push_raw(op) };
            self.submit();
        }
    }

    /// Ends a keep. It takes effect at the next turn, when nobody can be reading the bytes of this batch.
    pub fn release(&self, buffer: Handle) {
        self.releases.borrow_mut().push(buffer);
    }

    /// One turn: hands over the ops, waits up to `timeout_ns` (-1 for ever), and returns the number of events.
    pub(crate) fn turn(&self, timeout_ns: i64) -> Result<u32> {
        for buffer in self.releases.take() {
            self.push(op(sys::QUOIT_OP_RELEASE, buffer, 0));
        }
        if let Some(error) = self.failed.take() {
            self.nops.set(0);
            return Err(error);
        }
        let nops = self.nops.replace(0);
        self.scratch_used.set(0);
        // SAFETY: the first nops ops are written; this is the owner thread, and by the callers' `&mut` no event of the
        // last batch is being read any more.
        check(unsafe { sys::quoit_turn(self.worker(), nops, timeout_ns) })
    }

    /// For a batch callback of the library: takes the number of ops to hand over, which the library then reads.
    pub(crate) fn finish_callback(&self) -> Result<u32> {
        for buffer in self.releases.take() {
            self.push(op(sys::QUOIT_OP_RELEASE, buffer, 0));
        }
        self.scratch_used.set(0);
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.nops.replace(0)),
        }
    }
}

/// An op with its three common fields, all others zero.
pub(crate) fn op(opcode: u32, target: Handle, user_data: u64) -> sys::quoit_op {
    sys::quoit_op { opcode, target: target.raw(), user_data, ..Default::default() }
}

/// Data whose bytes may all be read: a struct of C without padding.
///
/// # Safety
/// The type must have no padding and no pointer that Rust tracks.
pub(crate) unsafe trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: without padding, all bytes are initialised.
        unsafe { std::slice::from_raw_parts((self as *const Self).cast::<u8>(), size_of::<Self>()) }
    }
}

// SAFETY: the headers are compiled with -Wpadded, so no public struct has padding.
unsafe impl Plain for sys::quoit_addr {}
