// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small executor for one thread. The worker's events wake tasks directly, and everything that the tasks of one round ask
//! for goes to the kernel in the call that waits for the next events.
//!
//! Nothing of the program is borrowed by the kernel: an operation's memory is owned by the operation until its last event, so
//! a future may be dropped, or forgotten, at any time.

mod core;
pub mod fs;
mod inbox;
mod join;
mod lease;
pub mod net;
mod op;
mod remote;
mod slots;
pub mod sync;
mod task;
pub mod time;
mod unblock;
mod waker;

pub use join::JoinError;
pub use lease::{Chunk, Lease, SendBuf};
pub use remote::{spawn_on, RemoteHandle};
pub use task::{spawn, yield_now, JoinHandle};
pub use unblock::{native, unblock};

use self::core::{current, Core};
use self::op::{result_of, Op};
use crate::error::Result;
use crate::handle::Handle;
use crate::stats::Stats;
use crate::worker::{Worker, WorkerHandle};
use quoit_sys as sys;
use std::future::Future;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

/// Runs futures on a worker, on this thread.
pub struct Executor {
    core: Rc<Core>,
}

impl Executor {
    /// An executor on a worker.
    pub fn new(worker: Worker) -> Executor {
        Executor { core: Core::new(worker) }
    }

    /// Runs a future, and the tasks that it spawns, until the future is done. Tasks that are left go on in the next call.
    ///
    /// If the future panics, all tasks are dropped, the worker is stopped, and the panic goes on here. A task that panics ends
    /// alone.
    ///
    /// # Errors
    /// `QUOIT_E_REENTER` inside of another `block_on` of this thread; `QUOIT_E_CLOSED` when the worker has been stopped.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output> {
        let mut future = Box::pin(future);
        match catch_unwind(AssertUnwindSafe(|| self.core.block_on(future.as_mut()))) {
            Ok(result) => result,
            Err(panic) => {
                drop(future);
                self.core.shutdown(Duration::ZERO);
                resume_unwind(panic);
            }
        }
    }

    /// Drops all tasks, waits up to `linger` for streams that are closing, and stops the worker. Dropping the executor does
    /// the same without lingering.
    pub fn shutdown(self, linger: Duration) {
        self.core.shutdown(linger);
    }

    /// What other threads know the worker by.
    pub fn handle(&self) -> WorkerHandle {
        self.core.worker().handle()
    }

    /// The worker's counters.
    pub fn stats(&self) -> Result<Stats> {
        self.core.worker().stats()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.core.shutdown(Duration::ZERO);
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("worker", &self.handle()).finish_non_exhaustive()
    }
}

/// The worker that this thread's executor runs on.
///
/// # Panics
/// Outside of `block_on`.
pub fn worker() -> WorkerHandle {
    current().worker().handle()
}

/// Waits until a file descriptor is ready. `mask` is of `quoit_sys::QUOIT_POLL_*`, and so is the output.
///
/// # Panics
/// Outside of `block_on`.
pub fn ready(fd: BorrowedFd<'_>, mask: u32) -> impl Future<Output = Result<u32>> {
    let core = current();
    let poll = sys::quoit_op {
        arg: mask,
        offset: i64::from(fd.as_raw_fd()),
        ..crate::ops::op(sys::QUOIT_OP_POLL, Handle::NONE, 0)
    };
    let poll = Op::start(&core, poll, |op| {
        core.ops().push(op);
        // The library duplicates the descriptor when it takes the op, and we may keep it no longer than this call.
        core.ops().submit();
    });
    async { result_of(poll).await.map(|mask| mask as u32) }
}

/// Does nothing but go once through the worker.
///
/// # Panics
/// Outside of `block_on`.
pub fn nop() -> impl Future<Output = Result<()>> {
    let nop = Op::plain(&current(), crate::ops::op(sys::QUOIT_OP_NOP, Handle::NONE, 0));
    async { result_of(nop).await.map(|_| ()) }
}
