// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles: 64-bit generational names of objects.

use quoit_sys as sys;

/// Names an object of a worker: a stream, listener, file, buffer and so on. Plain data: a handle whose object has ended
/// gives an error where it is used, never anything worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Handle(u64);

/// The type of object that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum HandleKind {
    Worker,
    Listener,
    Stream,
    File,
    Directory,
    Timer,
    Poll,
    Buffer,
    Datagram,
    Channel,
}

impl Handle {
    /// No object.
    pub const NONE: Handle = Handle(0);

    /// A handle from its number. Any number may be given; one that is no handle is an error where it is used.
    pub const fn from_raw(raw: u64) -> Handle {
        Handle(raw)
    }

    /// The number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A small dense number, unique among the worker's live objects (buffers have a space of their own): index lists by
    /// it, and compare whole handles.
    pub const fn index(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }

    /// The worker's number, unique in the process.
    pub(crate) const fn worker_number(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// True for [`Handle::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The type as written in the handle; nothing is looked up.
    pub fn kind(self) -> Option<HandleKind> {
        // SAFETY: any number is allowed, on any thread.
        let kind = unsafe { sys::quoit_handle_kind(self.0) };
        Some(match u32::try_from(kind).ok()? {
            sys::QUOIT_HANDLE_WORKER => HandleKind::Worker,
            sys::QUOIT_HANDLE_LISTENER => HandleKind::Listener,
            sys::QUOIT_HANDLE_STREAM => HandleKind::Stream,
            sys::QUOIT_HANDLE_FILE => HandleKind::File,
            sys::QUOIT_HANDLE_DIRECTORY => HandleKind::Directory,
            sys::QUOIT_HANDLE_TIMER => HandleKind::Timer,
            sys::QUOIT_HANDLE_POLL => HandleKind::Poll,
            sys::QUOIT_HANDLE_BUFFER => HandleKind::Buffer,
            sys::QUOIT_HANDLE_DATAGRAM => HandleKind::Datagram,
            sys::QUOIT_HANDLE_CHANNEL => HandleKind::Channel,
            _ => return None,
        })
    }
}
