// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers driven by the caller's thread, a batch at a time.

use crate::ask::nanos;
use crate::error::{check, Error, Result};
use crate::event::Batch;
use crate::handle::Handle;
use crate::ops::Ops;
use crate::options::Message;
use crate::runtime::Runtime;
use crate::stats::Stats;
use quoit_sys as sys;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut, NonNull};
use std::time::{Duration, Instant};

/// Options of a worker; what is not set has the library's default.
#[derive(Debug, Clone)]
pub struct WorkerBuilder {
    runtime: Runtime,
    options: sys::quoit_worker_options,
}

macro_rules! worker_options {
    ($($(#[$doc:meta])* $name:ident: $type:ty)*) => {
        impl WorkerBuilder {
            $($(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.options.$name = $name;
                self
            })*
        }
    };
}

worker_options! {
    /// Events per batch.
    events_max: u32
    /// Ops per turn.
    ops_max: u32
    /// Bytes of a scratch region, where payloads are copied to.
    scratch_len: u32
    /// Bytes of address space for received data.
    recv_arena: u64
    /// Bytes of address space for data to send.
    send_arena: u64
    /// Receive buffers that wait for data: a power of two.
    recv_buffers: u32
    /// Their size.
    recv_buffer_size: u32
    /// Copied bytes that one stream may owe.
    send_limit: u64
    /// Received bytes that one stream may have kept.
    kept_stream_max: u64
    /// Received bytes that may be kept in all.
    kept_max: u64
    /// Submission entries of a ring.
    ring_entries: u32
    /// Completion entries of a ring.
    cq_entries: u32
    /// Live objects.
    objects_max: u32
    /// Operations that posts may leave waiting.
    mailbox_ops: u32
    /// Their payload bytes.
    mailbox_bytes: u64
}

impl WorkerBuilder {
    pub(crate) fn new(runtime: Runtime) -> WorkerBuilder {
        let struct_size = size_of::<sys::quoit_worker_options>() as u32;
        WorkerBuilder { runtime, options: sys::quoit_worker_options { struct_size, ..Default::default() } }
    }

    /// How long a close waits for the peer's end.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.options.close_timeout_ns = nanos(timeout);
        self
    }

    /// The CPU to pin the thread of a [`WorkerThread`](crate::WorkerThread) to.
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.options.cpu = cpu + 1;
        self
    }

    /// Now and then bring events of unknown kinds, to prove that the program ignores them.
    pub fn grease(mut self) -> Self {
        self.options.flags |= sys::QUOIT_WORKER_GREASE;
        self
    }

    /// Makes a worker for this thread.
    pub fn build(self) -> Result<Worker> {
        let raw = self.create()?;
        let worker = Raw { raw, _runtime: self.runtime };
        // SAFETY: the worker lives as long as `raw`, beside the ops; Worker is not Send, so both stay on this thread.
        let ops = unsafe { Ops::new(raw)? };
        Ok(Worker { ops, _raw: worker })
    }

    /// Makes a worker and a small executor on it, for `async` code on this thread.
    pub fn executor(self) -> Result<crate::rt::Executor> {
        Ok(crate::rt::Executor::new(self.build()?))
    }

    pub(crate) fn create(&self) -> Result<NonNull<sys::quoit_worker>> {
        let mut raw = null_mut();
        // SAFETY: the runtime is live, the options are a valid struct that is not kept, raw takes the pointer.
        check(unsafe { sys::quoit_worker_create(self.runtime.raw(), &self.options, &mut raw) })?;
        NonNull::new(raw).ok_or(Error::CLOSED)
    }

    pub(crate) fn into_runtime(self) -> Runtime {
        self.runtime
    }
}

/// Owns the C worker; its runtime outlives it.
#[derive(Debug)]
struct Raw {
    raw: NonNull<sys::quoit_worker>,
    _runtime: Runtime,
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the owner, or the maker of a worker that never ran, destroys it on its thread; nothing uses it later.
        unsafe { sys::quoit_worker_destroy(self.raw.as_ptr()) };
    }
}

/// A worker that this thread drives: one turn hands over all operations and brings all events. It never leaves its thread.
///
/// Operations are asked for on the [`Batch`] that a turn gave, or on [`Worker::batch`] before the first.
#[derive(Debug)]
pub struct Worker {
    ops: Ops,
    _raw: Raw,
}

impl Worker {
    /// The current batch: to ask for operations before the first turn.
    pub fn batch(&self) -> Batch<'_> {
        // SAFETY: nevents is the number of written events; a turn needs `&mut self`, so none is made while this lives.
        unsafe { Batch::new(&self.ops, self.ops.batch().nevents) }
    }

    /// Hands over what was asked, waits until something happens or the time is over (`None`: for ever), and gives what
    /// happened. It may come back early with nothing.
    pub fn turn(&mut self, timeout: Option<Duration>) -> Result<Batch<'_>> {
        let count = self.ops.turn(timeout.map_or(-1, |timeout| nanos(timeout) as i64))?;
        // SAFETY: as in batch.
        Ok(unsafe { Batch::new(&self.ops, count) })
    }

    /// A turn that never waits.
    pub fn turn_nb(&mut self) -> Result<Batch<'_>> {
        self.turn(Some(Duration::ZERO))
    }

    /// Turns and calls back, once per batch that has something, until the callback breaks or the worker is stopped. After a
    /// [stop](WorkerHandle::stop) it goes on until every operation has told its last event.
    ///
    /// If the callback panics, the worker is stopped, what is in flight ends, and the panic goes on in the caller.
    pub fn run<F>(&mut self, mut on_batch: F) -> Result<()>
    where
        F: for<'b> FnMut(&Batch<'b>) -> ControlFlow<()>,
    {
        loop {
            let batch = match self.turn(None) {
                Err(Error::CLOSED) => return Ok(()),
                other => other?,
            };
            let drained = batch.drained();
            if !batch.is_empty() || batch.interrupted() {
                match catch_unwind(AssertUnwindSafe(|| on_batch(&batch))) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(()),
                    Err(panic) => {
                        self.shutdown(Duration::from_secs(5)).ok();
                        resume_unwind(panic);
                    }
                }
            }
            if drained {
                return Ok(());
            }
        }
    }

    /// Stops the worker and turns until every operation has ended; false if that took longer than `limit`.
    pub fn shutdown(&mut self, limit: Duration) -> Result<bool> {
        self.handle().stop()?;
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.turn(Some(left)) {
                Ok(batch) if batch.drained() => return Ok(true),
                Ok(_) if left.is_zero() => return Ok(false),
                Ok(_) => {}
                Err(Error::CLOSED) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// What other threads know this worker by.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { handle: self.ops.worker_handle() }
    }

    /// The worker's counters.
    pub fn stats(&self) -> Result<Stats> {
        self.handle().stats()
    }

    /// A descriptor that is readable when a turn would have something to do, for a foreign event loop: poll it for input
    /// only.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        // SAFETY: this is the owner thread, or the worker has not turned yet.
        let fd = check(unsafe { sys::quoit_worker_fd(self.ops.worker()) })?;
        // SAFETY: the descriptor stays open as long as the worker, which the result borrows.
        Ok(unsafe { BorrowedFd::borrow_raw(fd as i32) })
    }

    pub(crate) fn ops(&self) -> &Ops {
        &self.ops
    }
}

/// Names a worker from any thread. Plain data: when the worker is gone, its calls give errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerHandle {
    pub(crate) handle: Handle,
}

impl WorkerHandle {
    /// The number to post to.
    pub fn handle(self) -> Handle {
        self.handle
    }

    /// Asks the worker to stop: no new operation is taken, each one in flight ends with its last event.
    pub fn stop(self) -> Result<()> {
        // SAFETY: any handle may be stopped from any thread.
        check(unsafe { sys::quoit_stop(self.handle.raw()) }).map(|_| ())
    }

    /// Asks the worker to end in order: no more connections, an event of [`Kind::Drain`](crate::Kind::Drain), and a stop when
    /// all accepted streams are closed or the grace is over.
    pub fn drain(self, grace: Duration) -> Result<()> {
        // SAFETY: any handle may be drained from any thread.
        check(unsafe { sys::quoit_drain(self.handle.raw(), nanos(grace)) }).map(|_| ())
    }

    /// Sends the worker a message, and wakes it if it sleeps. False if its mailbox is full.
    pub fn post(self, message: Message) -> Result<bool> {
        // Executed there, a post to itself arrives there.
        let post = message.op(self.handle, message.user_data);
        let post = sys::quoit_op { flags: sys::QUOIT_OPF_QUIET, ..post };
        // SAFETY: one valid op, which holds no pointer; any handle may be posted to from any thread.
        check(unsafe { sys::quoit_post(self.handle.raw(), &post, 1) }).map(|taken| taken == 1)
    }

    /// Makes the worker's turn return, that it waits in or the next one, with events or without. A full mailbox does not matter.
    pub fn nudge(self) -> Result<()> {
        // SAFETY: no op is read; any handle may be posted to from any thread.
        check(unsafe { sys::quoit_post(self.handle.raw(), null(), 0) }).map(|_| ())
    }

    /// The worker's counters.
    pub fn stats(self) -> Result<Stats> {
        Stats::read(self.handle)
    }
}
