// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: a status of the C library, with its name, meaning and remedy in words.

use quoit_sys as sys;
use std::ffi::{c_char, CStr};
use std::{fmt, io};

/// What every fallible call gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A negative status: `-errno` of this platform, or one of `QUOIT_E_*`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error {
    status: i32,
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Nothing is wrong with the request: try again later.
    Retry,
    /// The peer, the object or the runtime has gone.
    Closed,
    /// The program asked wrongly.
    Usage,
    /// The system refused or failed.
    System,
    /// The operation was cancelled or timed out, as asked.
    Cancelled,
}

impl Error {
    /// The operation was cancelled.
    pub const CANCELED: Error = Error { status: -125 };
    /// The object has ended, or the buffer's loan has.
    pub const STALE: Error = Error { status: sys::QUOIT_E_STALE };
    /// The handle is of another type than the operation needs.
    pub const KIND: Error = Error { status: sys::QUOIT_E_KIND };
    /// The handle belongs to another worker.
    pub const WORKER: Error = Error { status: sys::QUOIT_E_WORKER };
    /// The value was never a handle.
    pub const HANDLE: Error = Error { status: sys::QUOIT_E_HANDLE };
    /// A call was made from inside another one that excludes it.
    pub const REENTER: Error = Error { status: sys::QUOIT_E_REENTER };
    /// The worker or runtime is shut down.
    pub const CLOSED: Error = Error { status: sys::QUOIT_E_CLOSED };
    /// The forced driver cannot be had here.
    pub const DRIVER: Error = Error { status: sys::QUOIT_E_DRIVER };
    /// Something else must end, or be asked about, first.
    pub const BUSY: Error = Error { status: sys::QUOIT_E_BUSY };
    /// An argument is out of range.
    pub const ARGUMENT: Error = Error { status: sys::QUOIT_E_ARGUMENT };

    /// The error of a status; a status that is none becomes `EIO`.
    pub fn from_status(status: i32) -> Error {
        Error { status: if status < 0 { status } else { -5 } }
    }

    /// The number: `-errno` or `QUOIT_E_*`.
    pub fn status(self) -> i32 {
        self.status
    }

    /// The platform's errno, if it is one.
    pub fn errno(self) -> Option<i32> {
        (-4095..0).contains(&self.status).then_some(-self.status)
    }

    /// The constant's name, such as `"QUOIT_E_STALE"` or `"ECONNRESET"`.
    pub fn name(self) -> &'static str {
        // SAFETY: any status is allowed, on any thread.
        static_text(unsafe { sys::quoit_status_name(self.status) })
    }

    /// What it means, as a sentence.
    pub fn message(self) -> &'static str {
        // SAFETY: any status is allowed, on any thread.
        static_text(unsafe { sys::quoit_status_message(self.status) })
    }

    /// How to fix it, as a sentence.
    pub fn hint(self) -> &'static str {
        // SAFETY: any status is allowed, on any thread.
        static_text(unsafe { sys::quoit_status_hint(self.status) })
    }

    /// What to do about it.
    pub fn class(self) -> Class {
        // SAFETY: any status is allowed, on any thread.
        match unsafe { sys::quoit_status_class(self.status) } as u32 {
            sys::QUOIT_CLASS_RETRY => Class::Retry,
            sys::QUOIT_CLASS_CLOSED => Class::Closed,
            sys::QUOIT_CLASS_USAGE => Class::Usage,
            sys::QUOIT_CLASS_CANCELLED => Class::Cancelled,
            _ => Class::System,
        }
    }
}

/// Text that the library owns and never frees.
pub(crate) fn static_text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the library gives NUL-terminated texts that live as long as the process.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// A call's status as a result: the count, or the error.
pub(crate) fn check(status: i32) -> Result<u32> {
    u32::try_from(status).map_err(|_| Error { status })
}

/// An event's `result` as a result.
pub(crate) fn check_event(result: i64) -> Result<u64> {
    u64::try_from(result).map_err(|_| Error { status: i32::try_from(result).unwrap_or(-5) })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message(), self.name())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({} {}: {})", self.name(), self.status, self.message())
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    /// Keeps the errno; an error without one becomes `EIO`.
    fn from(error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::from_status(-errno),
            None => Error::from_status(-5),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error.errno() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(error),
        }
    }
}
