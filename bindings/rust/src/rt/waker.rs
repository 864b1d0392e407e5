// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakers that are an index: a worker's number and a task's slot in one word. Cloning and dropping one costs nothing, and one
//! that outlives its task or its executor wakes nobody, or some other task once more than needed.

use super::core::{with_current, IGNORE};
use crate::handle::Handle;
use crate::ops::op;
use crate::worker::WorkerHandle;
use quoit_sys as sys;
use std::ptr::without_provenance;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Task slots per executor.
pub(crate) const TASKS_MAX: u32 = 1 << 24;

/// What other threads leave for an executor.
struct Remote {
    worker: Handle,
    posted: bool,
    tasks: Vec<u32>,
}

/// One per worker number; a number has no executor while `worker` is none.
static REMOTES: [Mutex<Remote>; 256] =
    [const { Mutex::new(Remote { worker: Handle::NONE, posted: false, tasks: Vec::new() }) }; 256];

fn remote(number: u8) -> MutexGuard<'static, Remote> {
    REMOTES[usize::from(number)].lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on wakes by other threads reach this worker.
pub(crate) fn register(worker: Handle) {
    *remote(worker.worker_number()) = Remote { worker, posted: false, tasks: Vec::new() };
}

/// The executor is gone: later wakes do nothing.
pub(crate) fn unregister(worker: Handle) {
    register_none(worker.worker_number(), worker);
}

fn register_none(number: u8, worker: Handle) {
    let mut remote = remote(number);
    if remote.worker == worker {
        *remote = Remote { worker: Handle::NONE, posted: false, tasks: Vec::new() };
    }
}

/// The tasks that other threads woke since the last call.
pub(crate) fn take_remote(number: u8) -> Vec<u32> {
    let mut remote = remote(number);
    remote.posted = false;
    std::mem::take(&mut remote.tasks)
}

fn wake_remote(number: u8, task: u32) {
    loop {
        let mut remote = remote(number);
        if remote.worker.is_none() {
            return;
        }
        if !remote.tasks.contains(&task) {
            remote.tasks.push(task);
        }
        if remote.posted {
            return;
        }
        let knock = op(sys::QUOIT_OP_NOP, Handle::NONE, IGNORE);
        match (WorkerHandle { handle: remote.worker }).post_op(knock) {
            Ok(true) => remote.posted = true,
            // The mailbox is full, so the worker is awake or about to be; try until it has read some of it.
            Ok(false) => {
                drop(remote);
                std::thread::yield_now();
                continue;
            }
            // The worker has stopped.
            Err(_) => {}
        }
        return;
    }
}

fn wake(data: *const ()) {
    let word = data.addr() as u32;
    let (number, task) = ((word >> 24) as u8, word % TASKS_MAX);
    let here = with_current(|core| core.number() == number && core.wake(task));
    if here != Some(true) {
        wake_remote(number, task);
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(|data| RawWaker::new(data, &TABLE), wake, wake, |_| {});

/// The waker of a task. It fits a pointer of 32 bits too.
pub(crate) fn waker(number: u8, task: u32) -> Waker {
    debug_assert!(task < TASKS_MAX);
    let word = (u32::from(number) << 24) | task;
    // SAFETY: the data is a number that nothing dereferences, so the table's functions may be called on any thread, any number
    // of times; clone gives the same word and drop has nothing to free.
    unsafe { Waker::from_raw(RawWaker::new(without_provenance(word as usize), &TABLE)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakers_are_an_index() {
        let waker = waker(255, TASKS_MAX - 1);
        assert!(waker.will_wake(&waker.clone()));
        assert!(!waker.will_wake(&super::waker(254, TASKS_MAX - 1)));
        // No executor has this number: nothing happens, on any thread.
        waker.wake_by_ref();
        std::thread::spawn(move || waker.wake()).join().expect("no panic");
        assert!(take_remote(255).is_empty());
    }
}
