// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks: futures that run beside the root one, named by a small index.

use super::core::{current, Core};
use super::join::JoinError;
use super::waker::TASKS_MAX;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::mem::replace;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

enum State {
    Free,
    Idle(TaskFuture),
    /// Being polled: its future is with the executor.
    Running,
    /// Being polled, and to be dropped after it.
    Aborted,
}

struct Slot {
    state: State,
    queued: bool,
}

pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
}

impl Default for Tasks {
    fn default() -> Tasks {
        // The root is always there, polled by block_on itself.
        Tasks { slots: vec![Slot { state: State::Running, queued: false }], free: VecDeque::new() }
    }
}

impl Tasks {
    /// The future given to block_on.
    pub(crate) const ROOT: u32 = 0;

    fn insert(&mut self, future: TaskFuture) -> u32 {
        let slot = Slot { state: State::Idle(future), queued: false };
        match self.free.pop_front() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                assert!(self.slots.len() < TASKS_MAX as usize, "quoit: too many tasks");
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// True if the task is there and was not queued yet; now it is.
    pub(crate) fn queue(&mut self, task: u32) -> bool {
        match self.slots.get_mut(task as usize) {
            Some(slot) if !matches!(slot.state, State::Free) => !replace(&mut slot.queued, true),
            _ => false,
        }
    }

    pub(crate) fn dequeue(&mut self, task: u32) {
        self.slots[task as usize].queued = false;
    }

    /// The future, to be polled; none if the task has ended since it was woken.
    pub(crate) fn take(&mut self, task: u32) -> Option<TaskFuture> {
        let slot = &mut self.slots[task as usize];
        slot.queued = false;
        match replace(&mut slot.state, State::Running) {
            State::Idle(future) => Some(future),
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// After a poll that is pending; gives the future back if the task was aborted in it.
    pub(crate) fn put_back(&mut self, task: u32, future: TaskFuture) -> Option<TaskFuture> {
        let slot = &mut self.slots[task as usize];
        if matches!(slot.state, State::Aborted) {
            self.free(task);
            return Some(future);
        }
        slot.state = State::Idle(future);
        None
    }

    pub(crate) fn free(&mut self, task: u32) {
        self.slots[task as usize].state = State::Free;
        self.free.push_back(task);
    }

    fn abort(&mut self, task: u32) -> Option<TaskFuture> {
        let slot = &mut self.slots[task as usize];
        match replace(&mut slot.state, State::Aborted) {
            State::Idle(future) => {
                self.free(task);
                Some(future)
            }
            State::Free => {
                slot.state = State::Free;
                None
            }
            State::Running | State::Aborted => None,
        }
    }

    /// Takes all futures out, to be dropped by the caller.
    pub(crate) fn clear(&mut self) -> Vec<TaskFuture> {
        let count = self.slots.len() as u32;
        (1..count).filter_map(|task| self.abort(task)).collect()
    }
}

/// What a task and those who wait for it share.
struct Shared<T> {
    end: RefCell<Option<Result<T, JoinError>>>,
    ended: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl<T> Shared<T> {
    fn finish(&self, end: Result<T, JoinError>) {
        if !self.ended.replace(true) {
            *self.end.borrow_mut() = Some(end);
            let waiting = self.waiting.borrow_mut().take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Tells the end even when the task's future is dropped.
struct Finish<T>(Rc<Shared<T>>);

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.0.finish(Err(JoinError::cancelled()));
    }
}

/// Polls a future; a panic in it is its end.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, JoinError> {
    let mut future = Box::pin(future);
    let end = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(JoinError::panicked(panic))),
    })
    .await;
    // What a future that panicked holds may panic when it is dropped; the first panic is the one to tell.
    match catch_unwind(AssertUnwindSafe(|| drop(future))) {
        Err(panic) if end.is_ok() => Err(JoinError::panicked(panic)),
        _ => end,
    }
}

/// Waits for a task. Dropping it lets the task go on by itself.
pub struct JoinHandle<T> {
    core: Weak<Core>,
    task: u32,
    shared: Rc<Shared<T>>,
}

impl<T> JoinHandle<T> {
    /// Drops the task's future; who waits for it gets an error that [is cancelled](JoinError::is_cancelled). A task that has
    /// ended is left as it is.
    pub fn abort(&self) {
        if self.shared.ended.get() {
            return;
        }
        let Some(core) = self.core.upgrade() else { return };
        let future = core.tasks().borrow_mut().abort(self.task);
        drop(future);
    }

    /// True if the task has ended.
    pub fn is_finished(&self) -> bool {
        self.shared.ended.get()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        if let Some(end) = self.shared.end.borrow_mut().take() {
            return Poll::Ready(end);
        }
        assert!(!self.shared.ended.get(), "quoit: a JoinHandle was polled after its end");
        *self.shared.waiting.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("task", &self.task)
            .field("ended", &self.shared.ended.get())
            .finish()
    }
}

/// Runs a future beside the others of this thread's executor. It need not be `Send`: tasks never move.
///
/// A panic in it ends the task alone: who awaits the handle gets it as an error, and the others go on.
///
/// # Panics
/// Outside of `block_on`.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_in(&current(), future)
}

pub(crate) fn spawn_in<F>(core: &Rc<Core>, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let shared =
        Rc::new(Shared { end: RefCell::new(None), ended: Cell::new(false), waiting: RefCell::new(None) });
    let finish = Finish(Rc::clone(&shared));
    let task = core.tasks().borrow_mut().insert(Box::pin(async move {
        let end = caught(future).await;
        finish.0.finish(end);
    }));
    core.wake(task);
    JoinHandle { core: Rc::downgrade(core), task, shared }
}

/// Lets other tasks, and then the kernel, go first.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future(held: &Rc<()>) -> TaskFuture {
        let held = Rc::clone(held);
        Box::pin(async move {
            let _held = held;
            std::future::pending().await
        })
    }

    #[test]
    fn a_task_is_queued_once() {
        let held = Rc::new(());
        let mut tasks = Tasks::default();
        let task = tasks.insert(future(&held));
        assert!(tasks.queue(task) && !tasks.queue(task));
        let polled = tasks.take(task).expect("it is there");
        assert!(tasks.queue(task), "it may be woken while it runs");
        assert!(tasks.take(task).is_none(), "but not run twice at a time");
        assert!(tasks.put_back(task, polled).is_none());
        assert!(!tasks.queue(task + 1), "there is no other");
    }

    #[test]
    fn an_aborted_task_is_dropped() {
        let held = Rc::new(());
        let mut tasks = Tasks::default();
        let task = tasks.insert(future(&held));
        drop(tasks.abort(task));
        assert_eq!(Rc::strong_count(&held), 1);
        assert!(tasks.abort(task).is_none() && tasks.take(task).is_none());
        // While it runs, it is dropped after the poll.
        let task = tasks.insert(future(&held));
        let polled = tasks.take(task).expect("it is there");
        assert!(tasks.abort(task).is_none());
        assert!(tasks.put_back(task, polled).is_some());
        let again = tasks.insert(future(&held));
        assert_eq!(again, task, "slots are used again");
        assert_eq!(tasks.clear().len(), 1);
    }
}
