// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers on threads of the library: named, pinned if asked, all signals blocked. Here C calls Rust.

use crate::error::{check, Result};
use crate::event::Batch;
use crate::ops::Ops;
use crate::options::Message;
use crate::runtime::Runtime;
use crate::worker::{WorkerBuilder, WorkerHandle};
use crate::{Error, Handle};
use quoit_sys as sys;
use std::any::Any;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::NonNull;

type Panic = Box<dyn Any + Send>;

/// What the callback's thread uses, and after the join the joining one.
struct Shared<F> {
    on_batch: F,
    ops: Option<Ops>,
    panic: Option<Panic>,
}

/// The part of `Shared` that does not depend on the callback's type.
trait Context {
    fn take_panic(&mut self) -> Option<Panic>;
}

impl<F> Context for Shared<F> {
    fn take_panic(&mut self) -> Option<Panic> {
        self.panic.take()
    }
}

/// A worker on a thread of its own. Dropping it stops the worker and waits for the thread.
pub struct WorkerThread {
    worker: NonNull<sys::quoit_worker>,
    handle: WorkerHandle,
    /// Owned; given back to Box when the thread has ended.
    context: Option<NonNull<dyn Context>>,
    runtime: Runtime,
}

// SAFETY: a join and what follows it may be done by any thread; the context holds only a callback that is Send, a panic that
// is Send, and ops that nobody uses after the join.
unsafe impl Send for WorkerThread {}

impl WorkerBuilder {
    /// Makes a worker that a new thread runs, calling back once per batch. The first batch has an event of kind
    /// [`Kind::Message`](crate::Kind::Message) whose words are all zero: the time to ask for the first things.
    ///
    /// If the callback panics, the worker ends and [`WorkerThread::join`] goes on with the panic.
    pub fn start<F>(self, on_batch: F) -> Result<WorkerThread>
    where
        F: for<'b> FnMut(&Batch<'b>) -> ControlFlow<()> + Send + 'static,
    {
        let worker = self.create()?;
        // SAFETY: the worker is live.
        let raw_handle = unsafe { sys::quoit_worker_handle(worker.as_ptr()) };
        let handle = WorkerHandle { handle: Handle::from_raw(raw_handle) };
        let context = Box::into_raw(Box::new(Shared { on_batch, ops: None, panic: None }));
        let mut thread = WorkerThread { worker, handle, context: None, runtime: self.into_runtime() };
        let started = handle.post(Message::default()).and_then(|_| {
            // SAFETY: the context stays until the thread has ended, and trampoline::<F> gets it as the type it has.
            check(unsafe { sys::quoit_worker_start(worker.as_ptr(), Some(trampoline::<F>), context.cast()) })
        });
        match started {
            Ok(_) => {
                thread.context = NonNull::new(context as *mut dyn Context);
                Ok(thread)
            }
            Err(error) => {
                // SAFETY: no thread was started, so the context is ours alone.
                drop(unsafe { Box::from_raw(context) });
                Err(error)
            }
        }
    }
}

unsafe extern "C" fn trampoline<F>(
    context: *mut c_void,
    worker: *mut sys::quoit_worker,
    batch: *mut sys::quoit_batch,
) -> sys::quoit_status
where
    F: for<'b> FnMut(&Batch<'b>) -> ControlFlow<()> + Send + 'static,
{
    // SAFETY: the context is the Shared<F> given to start, used by this thread only until it is joined.
    let shared = unsafe { &mut *context.cast::<Shared<F>>() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if shared.ops.is_none() {
            // SAFETY: the worker runs on this thread for as long as callbacks come, and only they use these ops.
            shared.ops = NonNull::new(worker).and_then(|worker| unsafe { Ops::new(worker) }.ok());
        }
        let Some(ops) = &shared.ops else { return Err(Error::CLOSED) };
        // SAFETY: the library wrote nevents events, and turns again only after we return.
        let lent = unsafe { Batch::new(ops, (*batch).nevents) };
        let flow = (shared.on_batch)(&lent);
        Ok((flow, ops.finish_callback()?))
    }));
    match outcome {
        Ok(Ok((flow, nops))) => {
            // SAFETY: the batch is the worker's own; nops says how many ops of its array are written.
            unsafe { (*batch).nops = nops };
            if flow.is_break() {
                sys::QUOIT_RUN_STOP as i32
            } else {
                0
            }
        }
        Ok(Err(error)) => error.status(),
        Err(panic) => {
            shared.panic = Some(panic);
            sys::QUOIT_RUN_STOP as i32
        }
    }
}

impl WorkerThread {
    /// What the worker is known by.
    pub fn handle(&self) -> WorkerHandle {
        self.handle
    }

    /// Waits until the worker has ended (it breaks, is stopped, or fails). If its callback panicked, so does this.
    pub fn join(mut self) -> Result<()> {
        let (result, panic) = self.finish();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        result
    }

    fn finish(&mut self) -> (Result<()>, Option<Panic>) {
        let Some(context) = self.context else { return (Ok(()), None) };
        // SAFETY: the worker is live, since only this destroys it.
        let result = check(unsafe { sys::quoit_worker_join(self.worker.as_ptr()) }).map(|_| ());
        if result == Err(Error::REENTER) {
            // Dropped inside its own callback: it cannot wait for itself, so its memory and runtime stay for good.
            self.context = None;
            std::mem::forget(self.runtime.clone());
            return (result, None);
        }
        self.context = None;
        // SAFETY: the thread has ended, so the context that start made is ours alone.
        let mut context = unsafe { Box::from_raw(context.as_ptr()) };
        (result, context.take_panic())
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        if self.context.is_some() {
            self.handle.stop().ok();
            self.finish().1.map(drop).unwrap_or(());
        }
        // SAFETY: the thread was joined or never started; if it still runs, the library refuses and keeps the worker.
        unsafe { sys::quoit_worker_destroy(self.worker.as_ptr()) };
    }
}

impl std::fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerThread").field("handle", &self.handle).finish_non_exhaustive()
    }
}
