// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runtimes: the choice of a driver, and what all workers share.

use crate::ask::nanos;
use crate::error::{check, Error, Result};
use crate::worker::WorkerBuilder;
use quoit_sys as sys;
use std::ffi::c_char;
use std::fmt;
use std::ptr::{null_mut, NonNull};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How a runtime talks to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Driver {
    /// The best that works here, or what `QUOIT_DRIVER` in the environment names.
    #[default]
    Auto,
    /// Any rung of io_uring.
    Uring,
    /// io_uring with deferred task work: the best rung.
    UringDefer,
    /// io_uring with cooperative task work.
    UringCoop,
    /// io_uring without either.
    UringPlain,
    /// epoll.
    Epoll,
}

const DRIVERS: [(Driver, u32, &str); 6] = [
    (Driver::Auto, sys::QUOIT_DRIVER_AUTO, "auto"),
    (Driver::Uring, sys::QUOIT_DRIVER_URING, "uring"),
    (Driver::UringDefer, sys::QUOIT_DRIVER_URING_DEFER, "uring-defer"),
    (Driver::UringCoop, sys::QUOIT_DRIVER_URING_COOP, "uring-coop"),
    (Driver::UringPlain, sys::QUOIT_DRIVER_URING_PLAIN, "uring-plain"),
    (Driver::Epoll, sys::QUOIT_DRIVER_EPOLL, "epoll"),
];

impl Driver {
    /// The name that `QUOIT_DRIVER` and command lines use, such as `"uring-defer"`.
    pub fn name(self) -> &'static str {
        DRIVERS.iter().find(|entry| entry.0 == self).map_or("auto", |entry| entry.2)
    }

    fn number(self) -> u32 {
        DRIVERS.iter().find(|entry| entry.0 == self).map_or(0, |entry| entry.1)
    }

    pub(crate) fn from_number(number: u32) -> Driver {
        DRIVERS.iter().find(|entry| entry.1 == number).map_or(Driver::Auto, |entry| entry.0)
    }
}

impl FromStr for Driver {
    type Err = Error;

    fn from_str(text: &str) -> Result<Driver> {
        DRIVERS.iter().find(|entry| entry.2 == text).map(|entry| entry.0).ok_or(Error::ARGUMENT)
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options of a runtime; what is not set has the library's default.
#[derive(Debug, Clone)]
pub struct RuntimeBuilder {
    options: sys::quoit_runtime_options,
}

impl RuntimeBuilder {
    /// Which driver to use. All but [`Driver::Auto`] mean that one or an error.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.options.driver = driver.number();
        self
    }

    /// Threads of the pool that runs blocking calls.
    pub fn pool_threads(mut self, threads: u32) -> Self {
        self.options.pool_threads = threads;
        self
    }

    /// How many blocking calls may wait for a thread of the pool.
    pub fn pool_queue(mut self, calls: u32) -> Self {
        self.options.pool_queue = calls;
        self
    }

    /// Write each log line to standard error too.
    pub fn log_to_stderr(mut self) -> Self {
        self.options.flags |= sys::QUOIT_RUNTIME_LOG_STDERR;
        self
    }

    /// Makes the runtime; the driver is chosen here, by trying.
    pub fn build(self) -> Result<Runtime> {
        let mut raw = null_mut();
        // SAFETY: the options are a valid struct that is not kept, and raw takes the pointer.
        check(unsafe { sys::quoit_runtime_create(&self.options, &mut raw) })?;
        let raw = NonNull::new(raw).ok_or(Error::CLOSED)?;
        Ok(Runtime { inner: Arc::new(Inner { raw }) })
    }
}

/// A set of workers over one driver. Clones name the same runtime, which ends with the last of them and of its workers.
#[derive(Debug, Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    raw: NonNull<sys::quoit_runtime>,
}

// SAFETY: every call that takes a runtime may be made from any thread.
unsafe impl Send for Inner {}
// SAFETY: the same.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: this is the last user of the runtime: each worker holds a clone, and has been destroyed before. Should the
        // library refuse (QUOIT_E_BUSY), nothing happens and the runtime is left to the end of the process.
        unsafe { sys::quoit_runtime_destroy(self.raw.as_ptr()) };
    }
}

impl Runtime {
    /// A runtime with all defaults.
    pub fn new() -> Result<Runtime> {
        Runtime::builder().build()
    }

    /// Options for a runtime.
    pub fn builder() -> RuntimeBuilder {
        let struct_size = size_of::<sys::quoit_runtime_options>() as u32;
        RuntimeBuilder { options: sys::quoit_runtime_options { struct_size, ..Default::default() } }
    }

    /// Options for a worker of this runtime.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone())
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> Driver {
        // SAFETY: the runtime is live as long as self.
        let number = unsafe { sys::quoit_runtime_driver(self.raw()) };
        Driver::from_number(u32::try_from(number).unwrap_or(0))
    }

    /// Why that driver, as a sentence.
    pub fn driver_reason(&self) -> String {
        // SAFETY: the runtime is live as long as self; the text's memory and size are given right.
        text_of(|text, size| unsafe { sys::quoit_runtime_driver_reason(self.raw(), text, size) })
    }

    /// From now on the first of these signals (`quoit_sys::QUOIT_SIGNAL_TERM` and so on, or-ed) drains every worker with this
    /// grace, a second one without any. Call it before other threads start: the signals are blocked on this one, and those that it
    /// starts inherit that.
    pub fn drain_on_signals(&self, signals: u32, grace: Duration) -> Result<()> {
        // SAFETY: the runtime is live as long as self.
        check(unsafe { sys::quoit_drain_on_signals(self.raw(), signals, nanos(grace)) }).map(|_| ())
    }

    /// Takes the oldest line out of the log.
    pub fn read_log(&self) -> Option<String> {
        // SAFETY: the runtime is live as long as self; the text's memory and size are given right; the level is not wanted.
        let line = text_of(|text, size| unsafe { sys::quoit_log_read(self.raw(), text, size, null_mut()) });
        (!line.is_empty()).then_some(line)
    }

    pub(crate) fn raw(&self) -> *mut sys::quoit_runtime {
        self.inner.raw.as_ptr()
    }
}

/// The text that a call writes into the memory that it is given; empty if the call fails.
pub(crate) fn text_of(write: impl Fn(*mut c_char, u32) -> i32) -> String {
    const ENOSPC: i32 = -28;
    let mut text = vec![0u8; 1024];
    loop {
        match write(text.as_mut_ptr().cast(), text.len() as u32) {
            ENOSPC if text.len() < 1 << 20 => text.resize(text.len() * 4, 0),
            status => {
                text.truncate(usize::try_from(status).unwrap_or(0));
                return String::from_utf8_lossy(&text).into_owned();
            }
        }
    }
}
