// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakers that are an index: a worker's number and a task's slot in one word. Cloning and dropping one costs nothing, and one
//! that outlives its task or its executor wakes nobody, or some other task once more than needed.

use super::core::{with_current, Core};
use crate::handle::Handle;
use crate::worker::WorkerHandle;
use std::mem::{replace, take};
use std::ptr::without_provenance;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Task slots per executor.
pub(crate) const TASKS_MAX: u32 = 1 << 24;

/// Makes a task of an executor; called by it.
pub(crate) type Spawn = Box<dyn FnOnce(&Rc<Core>) + Send>;

/// What other threads leave for an executor.
struct Remote {
    worker: Handle,
    knocked: bool,
    tasks: Vec<u32>,
    spawns: Vec<Spawn>,
}

impl Remote {
    const fn new(worker: Handle) -> Remote {
        Remote { worker, knocked: false, tasks: Vec::new(), spawns: Vec::new() }
    }
}

/// One per worker number; a number has no executor while `worker` is none.
static REMOTES: [Mutex<Remote>; 256] = [const { Mutex::new(Remote::new(Handle::NONE)) }; 256];

fn remote(number: u8) -> MutexGuard<'static, Remote> {
    REMOTES[usize::from(number)].lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on wakes by other threads reach this worker.
pub(crate) fn register(worker: Handle) {
    let old = replace(&mut *remote(worker.worker_number()), Remote::new(worker));
    drop(old);
}

/// The executor is gone: later wakes do nothing.
pub(crate) fn unregister(worker: Handle) {
    let mut remote = remote(worker.worker_number());
    if remote.worker == worker {
        let old = replace(&mut *remote, Remote::new(Handle::NONE));
        // What was never spawned is dropped without the lock: it may run any code.
        drop(remote);
        drop(old);
    }
}

/// The tasks that other threads woke, and those that they made, since the last call.
pub(crate) fn take_remote(number: u8) -> (Vec<u32>, Vec<Spawn>) {
    let mut remote = remote(number);
    remote.knocked = false;
    (take(&mut remote.tasks), take(&mut remote.spawns))
}

/// Sees that the executor of this worker looks at what was left for it, which is in `locked` already. False if it has stopped.
fn knock(worker: Handle, mut locked: MutexGuard<'static, Remote>) -> bool {
    if locked.worker != worker || locked.knocked {
        return locked.worker == worker;
    }
    if (WorkerHandle { handle: worker }).nudge().is_ok() {
        locked.knocked = true;
        return true;
    }
    // The worker has stopped. What was to be spawned is dropped without the lock: it may run any code.
    let spawns = take(&mut locked.spawns);
    drop(locked);
    drop(spawns);
    false
}

fn wake_remote(number: u8, task: u32) {
    let mut remote = remote(number);
    if !remote.worker.is_none() {
        if !remote.tasks.contains(&task) {
            remote.tasks.push(task);
        }
        knock(remote.worker, remote);
    }
}

/// Has an executor make a task. False, and the closure is dropped, if the worker has none.
pub(crate) fn spawn_remote(worker: Handle, spawn: Spawn) -> bool {
    let mut remote = remote(worker.worker_number());
    if remote.worker != worker {
        drop(remote);
        drop(spawn);
        return false;
    }
    remote.spawns.push(spawn);
    knock(worker, remote)
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
        assert!(take_remote(255).0.is_empty());
    }
}
