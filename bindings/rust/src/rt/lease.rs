// SPDX-License-Identifier: MIT OR Apache-2.0
//! Received bytes: leases that last as long as they are held, chunks that last as long as the turn, and what can be sent.

use super::core::Core;
use super::slots::Owned;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use quoit_sys as sys;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes that a stream brought, in the receive buffer that the kernel wrote. The buffer goes back when the lease is dropped. A
/// stream that has too much of it out receives no more until some comes back.
pub struct Lease {
    place: Place,
    start: usize,
    end: usize,
}

enum Place {
    /// A kept buffer: the library leaves it alone until it is released.
    Kept { core: Rc<Core>, buffer: Handle, offset: u64 },
    /// A copy, made when kept memory was at its cap.
    Copied(Vec<u8>),
}

impl Lease {
    /// The bytes of a recv event of this turn.
    pub(crate) fn from_event(core: &Rc<Core>, event: &sys::quoit_event) -> Lease {
        let end = event.len as usize;
        let place = if event.flags & sys::QUOIT_EVF_KEPT != 0 {
            Place::Kept {
                core: Rc::clone(core),
                buffer: Handle::from_raw(event.buffer),
                offset: event.offset,
            }
        } else {
            let at = (core.ops().batch().recv_base + event.offset) as *const u8;
            // SAFETY: the event is of this turn, so its bytes are lent until the next one.
            Place::Copied(unsafe { std::slice::from_raw_parts(at, end) }.to_vec())
        };
        Lease { place, start: 0, end }
    }

    /// Writes into a send where the bytes are, if they are in a kept buffer.
    pub(crate) fn describe_kept(&self, op: &mut sys::quoit_op) -> bool {
        let kept = matches!(self.place, Place::Kept { .. });
        if kept {
            sealed::Sealed::describe(self, op);
        }
        kept
    }

    /// Drops the first bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "cannot drop {count} of {} bytes", self.len());
        self.start += count;
    }

    /// Drops all but the first bytes.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.place {
            Place::Kept { core, offset, .. } => {
                let at = (core.ops().batch().recv_base + offset) as *const u8;
                // SAFETY: the buffer is kept, so nobody writes it before our release, which comes when this is dropped; the
                // worker, and with it the arena, lives as long as the core.
                let bytes = unsafe { std::slice::from_raw_parts(at, self.end) };
                &bytes[self.start..]
            }
            Place::Copied(bytes) => &bytes[self.start..self.end],
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Place::Kept { core, buffer, .. } = &self.place {
            core.tell(op(sys::QUOIT_OP_RELEASE, *buffer, 0));
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = matches!(self.place, Place::Kept { .. });
        f.debug_struct("Lease").field("len", &self.len()).field("kept", &kept).finish()
    }
}

/// Bytes that a file read brought, lent until the executor's next turn: look at them or send them at once, that is before
/// awaiting anything else. Later it gives `QUOIT_E_STALE`, never other bytes.
pub struct Chunk {
    core: Rc<Core>,
    turn: u64,
    event: sys::quoit_event,
}

impl Chunk {
    pub(crate) fn new(core: &Rc<Core>, turn: u64, event: sys::quoit_event) -> Chunk {
        Chunk { core: Rc::clone(core), turn, event }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.event.len as usize
    }

    /// True if the read brought nothing: the file's end.
    pub fn is_empty(&self) -> bool {
        self.event.len == 0
    }

    /// Calls with the bytes, if they are still lent.
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if self.turn != self.core.turn_now() {
            return Err(Error::STALE);
        }
        let at = (self.core.ops().batch().recv_base + self.event.offset) as *const u8;
        // SAFETY: the loan lasts until the next turn. `look` cannot make one: only block_on does, which refuses to be entered
        // from within itself, and outside of it the turn that ended it has passed.
        Ok(look(unsafe { std::slice::from_raw_parts(at, self.len()) }))
    }

    /// A copy of the bytes, if they are still lent.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        self.with(<[u8]>::to_vec)
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk").field("len", &self.len()).field("turn", &self.turn).finish()
    }
}

/// Bytes to send or write. The operation owns them until it is done, then gives them back: `Vec<u8>`, `Arc<[u8]>`, texts and
/// bytes that live as long as the program, and received bytes ([`Lease`], [`Chunk`]), which are not copied at all.
pub trait SendBuf: sealed::Sealed + Sized {}

impl<B: sealed::Sealed> SendBuf for B {}

pub(crate) mod sealed {
    use super::*;

    pub trait Sealed: Sized {
        /// What is left of it when the operation is done.
        type Back;

        /// Writes into the op where the bytes are.
        fn describe(&self, op: &mut sys::quoit_op);
        /// The memory, at the address that `describe` gave.
        fn into_owned(self) -> Owned;
        fn from_owned(owned: Owned) -> Self::Back;
    }

    /// The op uses memory that its slot owns.
    fn borrow(op: &mut sys::quoit_op, bytes: &[u8]) {
        assert!(u32::try_from(bytes.len()).is_ok(), "one operation carries less than 4 GiB");
        op.flags |= sys::QUOIT_OPF_BORROW;
        op.addr = bytes.as_ptr() as u64;
        op.len = bytes.len() as u32;
    }

    /// The op uses a received buffer, whose loan the library checks.
    fn received(op: &mut sys::quoit_op, offset: u64, len: usize, buffer: Handle) {
        op.flags |= sys::QUOIT_OPF_ARENA_RECV;
        op.addr = offset;
        op.len = len as u32;
        op.arg2 = buffer.raw();
    }

    impl Sealed for Vec<u8> {
        type Back = Vec<u8>;

        fn describe(&self, op: &mut sys::quoit_op) {
            borrow(op, self);
        }
        fn into_owned(self) -> Owned {
            Owned::Vec(self)
        }
        fn from_owned(owned: Owned) -> Vec<u8> {
            match owned {
                Owned::Vec(bytes) => bytes,
                _ => Vec::new(),
            }
        }
    }

    impl Sealed for String {
        type Back = String;

        fn describe(&self, op: &mut sys::quoit_op) {
            borrow(op, self.as_bytes());
        }
        fn into_owned(self) -> Owned {
            Owned::Vec(self.into_bytes())
        }
        fn from_owned(owned: Owned) -> String {
            String::from_utf8(Vec::from_owned(owned)).unwrap_or_default()
        }
    }

    impl Sealed for Arc<[u8]> {
        type Back = ();

        fn describe(&self, op: &mut sys::quoit_op) {
            borrow(op, self);
        }
        fn into_owned(self) -> Owned {
            Owned::Shared(self)
        }
        fn from_owned(_: Owned) {}
    }

    impl Sealed for &'static [u8] {
        type Back = ();

        fn describe(&self, op: &mut sys::quoit_op) {
            borrow(op, self);
        }
        fn into_owned(self) -> Owned {
            Owned::Static(self)
        }
        fn from_owned(_: Owned) {}
    }

    impl Sealed for &'static str {
        type Back = ();

        fn describe(&self, op: &mut sys::quoit_op) {
            borrow(op, self.as_bytes());
        }
        fn into_owned(self) -> Owned {
            Owned::Static(self.as_bytes())
        }
        fn from_owned(_: Owned) {}
    }

    impl Sealed for Lease {
        type Back = ();

        fn describe(&self, op: &mut sys::quoit_op) {
            match &self.place {
                Place::Kept { buffer, offset, .. } => {
                    received(op, offset + self.start as u64, self.len(), *buffer)
                }
                Place::Copied(_) => borrow(op, self),
            }
        }
        fn into_owned(self) -> Owned {
            Owned::Lease(self)
        }
        fn from_owned(_: Owned) {}
    }

    impl Sealed for Chunk {
        type Back = ();

        fn describe(&self, op: &mut sys::quoit_op) {
            received(op, self.event.offset, self.len(), Handle::from_raw(self.event.buffer));
        }
        fn into_owned(self) -> Owned {
            // The send takes its own reference to the buffer.
            Owned::None
        }
        fn from_owned(_: Owned) {}
    }
}
