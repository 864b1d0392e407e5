// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks on other workers.

use super::join::JoinError;
use super::task::{caught, spawn_in};
use super::waker::spawn_remote;
use crate::error::{Error, Result};
use crate::worker::WorkerHandle;
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a task and those who wait for it on other threads share.
struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    end: Option<std::result::Result<T, JoinError>>,
    ended: bool,
    aborted: bool,
    /// The task's, so that an abort reaches it.
    task: Option<Waker>,
    waiting: Option<Waker>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, end: std::result::Result<T, JoinError>) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.ended = true;
        state.end = Some(end);
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Tells the end even when the task is dropped, or was never made.
struct Finish<T>(Arc<Shared<T>>);

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.0.finish(Err(JoinError::cancelled()));
    }
}

/// Waits, on any thread, for a task of another worker. Dropping it lets the task go on by itself.
pub struct RemoteHandle<T> {
    shared: Arc<Shared<T>>,
}

impl<T> RemoteHandle<T> {
    /// Asks the task's worker to drop the task's future; the end is then an error that
    /// [is cancelled](JoinError::is_cancelled), unless the task was faster.
    pub fn abort(&self) {
        let mut state = self.shared.lock();
        state.aborted = true;
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }

    /// True if the task has ended.
    pub fn is_finished(&self) -> bool {
        self.shared.lock().ended
    }
}

impl<T> Future for RemoteHandle<T> {
    type Output = std::result::Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if let Some(end) = state.end.take() {
            return Poll::Ready(end);
        }
        assert!(!state.ended, "quoit: a RemoteHandle was polled after its end");
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> std::fmt::Debug for RemoteHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteHandle").field("ended", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Runs a future on the executor of another worker, or of this one; it may be called on any thread. The closure moves there and
/// makes the future, which need not be `Send`: it never leaves.
///
/// A panic ends the task alone, and who awaits the handle gets it as an error. If the executor ends before the task, the task
/// is cancelled.
///
/// ```
/// let runtime = quoit::Runtime::new()?;
/// let mut here = runtime.worker().executor()?;
/// let (tell, told) = std::sync::mpsc::channel();
/// let there = std::thread::spawn(move || {
///     let mut executor = runtime.worker().executor()?;
///     tell.send(executor.handle()).ok();
///     executor.block_on(std::future::pending::<()>())
/// });
/// let worker = told.recv().expect("the other worker begins");
/// let sum = here.block_on(async {
///     let task = quoit::spawn_on(worker, || async {
///         let local = std::rc::Rc::new(2);
///         *local + 2
///     })?;
///     quoit::Result::Ok(task.await?)
/// })??;
/// assert_eq!(sum, 4);
/// worker.stop()?;
/// there.join().expect("no panic").expect_err("it was stopped");
/// # quoit::Result::Ok(())
/// ```
///
/// # Errors
/// `QUOIT_E_CLOSED` if the worker has no executor, or has stopped.
pub fn spawn_on<F, T>(worker: WorkerHandle, make: F) -> Result<RemoteHandle<T::Output>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Future + 'static,
    T::Output: Send + 'static,
{
    let state = State { end: None, ended: false, aborted: false, task: None, waiting: None };
    let shared = Arc::new(Shared { state: Mutex::new(state) });
    let finish = Finish(Arc::clone(&shared));
    let spawned = spawn_remote(
        worker.handle(),
        Box::new(move |core| {
            spawn_in(core, async move {
                let end = unless_aborted(&finish.0, caught(async { make().await })).await;
                finish.0.finish(end);
            });
        }),
    );
    if spawned {
        Ok(RemoteHandle { shared })
    } else {
        Err(Error::CLOSED)
    }
}

/// The future's output, unless an abort is asked for before: then the future is dropped.
async fn unless_aborted<T>(
    shared: &Shared<T>,
    future: impl Future<Output = std::result::Result<T, JoinError>>,
) -> std::result::Result<T, JoinError> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let mut state = shared.lock();
        if state.aborted {
            return Poll::Ready(Err(JoinError::cancelled()));
        }
        state.task = Some(context.waker().clone());
        drop(state);
        future.as_mut().poll(context)
    })
    .await
}
