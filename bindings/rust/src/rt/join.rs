// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a task ended that gave no value.

use crate::error::Error;
use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Why a task gave no value: it was cancelled, or it panicked.
pub struct JoinError {
    /// In a mutex for the sake of Sync alone.
    panic: Option<Mutex<Panic>>,
    message: String,
}

type Panic = Box<dyn Any + Send>;

impl JoinError {
    pub(crate) fn cancelled() -> JoinError {
        JoinError { panic: None, message: String::from("the task was cancelled") }
    }

    pub(crate) fn panicked(panic: Panic) -> JoinError {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("the task panicked: {}", text.unwrap_or("with something that is no text"));
        JoinError { panic: Some(Mutex::new(panic)), message }
    }

    /// The task was aborted, or its executor ended.
    pub fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// The task panicked.
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// What the task panicked with, for `std::panic::resume_unwind`; none if it was cancelled.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.panic.map(|panic| panic.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for Error {
    /// `ECANCELED`: the task ended without a value. A panic was already told on standard error by the panic hook.
    fn from(_: JoinError) -> Error {
        Error::CANCELED
    }
}
