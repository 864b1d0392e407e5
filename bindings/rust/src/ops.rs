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

/// A part of the scratch region, which nobody else writes before the next turn.
struct Room {
    offset: u64,
    len: usize,
}

/// What stands beside a datagram's payload.
#[derive(Clone, Copy)]
#[repr(C)]
struct Envelope {
    to: sys::quoit_addr,
    info: sys::quoit_packet_info,
}

// SAFETY: 128 and 144 bytes, each without padding, the whole a multiple of its alignment.
unsafe impl Plain for Envelope {}

const TO_LEN: u64 = size_of::<sys::quoit_addr>() as u64;

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
    fn reserve(&self, len: usize) -> Option<Room> {
        let batch = self.batch();
        let used = self.scratch_used.get();
        let wanted = u32::try_from(len).ok().filter(|len| batch.scratch_len.saturating_sub(used) >= *len)?;
        self.scratch_used.set((used + wanted).next_multiple_of(ALIGN).min(batch.scratch_len));
        Some(Room { offset: batch.scratch_off + u64::from(used), len })
    }

    fn fill(&self, room: &Room, at: usize, bytes: &[u8]) {
        assert!(at <= room.len && bytes.len() <= room.len - at);
        // SAFETY: the room is as many bytes of the scratch region, which this thread alone may write until the next turn.
        unsafe {
            let to = (self.batch().send_base + room.offset) as *mut u8;
            to.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Pushes an op whose `addr` names the bytes.
    pub(crate) fn push_with(&self, op: sys::quoit_op, bytes: &[u8]) {
        self.push_at(op, self.reserve(bytes.len()), bytes, |op, at| op.addr = at);
    }

    /// The same for plain data that names parts of itself: `link` is told where it will lie.
    pub(crate) fn push_block<T: Plain>(
        &self,
        mut op: sys::quoit_op,
        mut block: T,
        link: impl FnOnce(&mut sys::quoit_op, &mut T, u64),
    ) {
        let room = self.reserve(size_of::<T>());
        let at = room.as_ref().map_or((&raw const block) as u64, |room| room.offset);
        link(&mut op, &mut block, at);
        self.push_at(op, room, block.bytes(), |op, at| op.addr = at);
    }

    /// The same for an op that names plain data in `arg2` only.
    pub(crate) fn push_aside<T: Plain>(&self, op: sys::quoit_op, block: T) {
        let room = self.reserve(size_of::<T>());
        self.push_at(op, room, block.bytes(), |op, at| op.arg2 = at);
    }

    /// A datagram of these bytes: for a peer, and from where, if they are given.
    pub(crate) fn push_datagram(
        &self,
        mut op: sys::quoit_op,
        bytes: &[u8],
        to: Option<&Addr>,
        info: Option<&sys::quoit_packet_info>,
    ) {
        op.len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if to.is_none() && info.is_none() {
            return self.push_with(op, bytes);
        }
        const HEAD: usize = size_of::<Envelope>();
        let envelope = Envelope {
            to: to.copied().unwrap_or(Addr::empty()).raw,
            info: info.copied().unwrap_or(packet_info(Addr::empty())),
        };
        let room = self.reserve(HEAD + bytes.len());
        let at = room.as_ref().map_or((&raw const envelope) as u64, |room| room.offset);
        op.arg2 = to.map_or(0, |_| at);
        op.offset = info.map_or(0, |_| (at + TO_LEN) as i64);
        if let Some(room) = room {
            self.fill(&room, 0, envelope.bytes());
            self.fill(&room, HEAD, bytes);
            op.addr = room.offset + HEAD as u64;
            op.flags |= sys::QUOIT_OPF_ARENA_SEND;
            self.push(op);
        } else {
            op.addr = bytes.as_ptr() as u64;
            // SAFETY: all of it lives until the submission has taken the op with all that it points at.
            unsafe { self.push_raw(op) };
            self.submit();
        }
    }

    /// With room the bytes are copied there; without, the library reads them where they are before this returns. `name` writes
    /// into the op where that is.
    fn push_at(
        &self,
        mut op: sys::quoit_op,
        room: Option<Room>,
        bytes: &[u8],
        name: impl FnOnce(&mut sys::quoit_op, u64),
    ) {
        if let Some(room) = room {
            self.fill(&room, 0, bytes);
            name(&mut op, room.offset);
            op.flags |= sys::QUOIT_OPF_ARENA_SEND;
            self.push(op);
        } else {
            name(&mut op, bytes.as_ptr() as u64);
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

/// Where a datagram leaves from.
pub(crate) fn packet_info(source: Addr) -> sys::quoit_packet_info {
    let struct_size = size_of::<sys::quoit_packet_info>() as u32;
    sys::quoit_packet_info { struct_size, flags: 0, reserved: 0, source: source.raw }
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

// SAFETY: the same.
unsafe impl Plain for sys::quoit_bind_options {}
