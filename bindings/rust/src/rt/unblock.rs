// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work for the blocking pool: Rust closures and native functions.

use super::core::current;
use super::op::Op;
use super::slots::Owned;
use crate::call::{Call, Native};
use crate::error::{check_event, Error, Result};
use quoit_sys as sys;
use std::ffi::c_void;
use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::NonNull;

/// A closure and the place of its result, shared by the pool's thread and the operation's slot.
struct Work<F, T> {
    closure: Option<F>,
    result: Option<std::thread::Result<T>>,
}

/// Owns a `Work` whose type is forgotten. While the operation is under way only the pool's thread looks inside.
pub struct Job {
    work: NonNull<c_void>,
    free: unsafe fn(*mut c_void),
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the operation has ended or never began, so the work is ours alone; free is made for its type.
        unsafe { (self.free)(self.work.as_ptr()) };
    }
}

/// # Safety
/// `work` must come from a `Box<Work<F, T>>` that is not used again.
unsafe fn free_work<F, T>(work: *mut c_void) {
    // SAFETY: by the caller's promise.
    drop(unsafe { Box::from_raw(work.cast::<Work<F, T>>()) });
}

/// What the pool calls.
unsafe extern "C" fn run_work<F: FnOnce() -> T, T>(work: *mut c_void) {
    // SAFETY: the slot owns the work until the call's event and does not look at it before.
    let work = unsafe { &mut *work.cast::<Work<F, T>>() };
    if let Some(closure) = work.closure.take() {
        // A panic must not cross into C; it goes on where the result is awaited.
        work.result = Some(catch_unwind(AssertUnwindSafe(closure)));
    }
}

/// Runs a closure that blocks on a thread of the runtime's pool. A panic in it goes on here. Dropping the future does not stop
/// a closure that runs; its result is then dropped.
///
/// # Panics
/// Outside of `block_on`, and if the closure panics.
pub fn unblock<F, T>(closure: F) -> impl Future<Output = Result<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let work: *mut Work<F, T> = Box::into_raw(Box::new(Work { closure: Some(closure), result: None }));
    let function = run_work::<F, T> as unsafe extern "C" fn(*mut c_void) as usize as u64;
    // SAFETY: run_work takes one pointer and returns nothing; the work lives until the call's event, and is Send.
    let call = unsafe { Call::new::<()>(function) }.arg(work.cast::<c_void>());
    let work = NonNull::new(work.cast::<c_void>()).expect("a box is not null");
    let op = offload(&call, Owned::Job(Job { work, free: free_work::<F, T> }));
    async move {
        let (owned, done) = op.await;
        check_event(done.event.result)?;
        let Owned::Job(job) = owned else { return Err(Error::CLOSED) };
        // SAFETY: the call has ended, so the work is ours alone; it has the type that this function gave it.
        match unsafe { &mut *job.work.as_ptr().cast::<Work<F, T>>() }.result.take() {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => resume_unwind(panic),
            None => Err(Error::CANCELED),
        }
    }
}

/// Runs a native function on the pool and gives what it returns. That it may be called was promised when the [`Call`] was made;
/// memory that its arguments point at must stay even if the future is dropped, since a call that runs is not interrupted.
///
/// # Panics
/// Outside of `block_on`.
pub fn native<R: Native>(call: Call) -> impl Future<Output = Result<R>> {
    let fits = call.returns == R::TYPE;
    let op = offload(&call, Owned::None);
    async move {
        let (_, done) = op.await;
        check_event(done.event.result)?;
        if !fits {
            return Err(Error::ARGUMENT);
        }
        Ok(R::from_bits(done.event.value))
    }
}

fn offload(call: &Call, owned: Owned) -> Op {
    let core = current();
    let op = sys::quoit_op { opcode: sys::QUOIT_OP_OFFLOAD, ..Default::default() };
    Op::with(&core, op, owned, |op| core.ops().offload(call, op.user_data))
}
