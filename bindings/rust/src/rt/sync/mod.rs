// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between tasks, on one worker or on several: [`oneshot`], bounded [`mpsc`] and [`Notify`], and the library's own bounded channels
//! between workers in [`channel`].
//!
//! All but those may be used on any thread. What is sent stays in the process's memory; a task of another worker is woken by one
//! post, and only if nobody has woken that worker already.

pub mod channel;
pub mod mpsc;
mod notify;
pub mod oneshot;
mod values;
mod waiters;

pub use notify::{Notified, Notify};

use crate::error::Error;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The other side is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side of the channel is gone")
    }
}

impl std::error::Error for Closed {}

impl From<Closed> for Error {
    fn from(_: Closed) -> Error {
        Error::CLOSED
    }
}

/// No code of others runs while one of these locks is held, so a panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
