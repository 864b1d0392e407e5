// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waking tasks without a value.

use super::lock;
use super::waiters::Waiters;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Wakes one task, or all that wait. One wake that nobody waits for is kept for the next who does.
///
/// ```
/// # use std::sync::Arc;
/// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
/// # executor.block_on(async {
/// let notify = Arc::new(quoit::sync::Notify::new());
/// let other = Arc::clone(&notify);
/// std::thread::spawn(move || other.notify_one());
/// notify.notified().await;
/// # })?;
/// # quoit::Result::Ok(())
/// ```
#[derive(Default)]
pub struct Notify {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A wake that waits for somebody.
    kept: bool,
    /// Counts calls of notify_waiters.
    round: u64,
    waiters: Waiters,
}

impl Notify {
    /// Nobody waits, and nothing is kept.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes who has waited longest; if nobody waits, the next who does is woken at once. Several such calls keep one wake.
    pub fn notify_one(&self) {
        let mut state = lock(&self.state);
        let waker = state.waiters.grant();
        state.kept |= waker.is_none();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Wakes all that wait, those too whose futures are made but not yet polled. Nothing is kept.
    pub fn notify_waiters(&self) {
        let mut state = lock(&self.state);
        state.round += 1;
        let wakers = state.waiters.clear();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits to be woken. Dropping the future loses no wake: one that it had got and not told goes to the next.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, round: lock(&self.state).round, place: None, done: false }
    }
}

/// The future of [`Notify::notified`].
pub struct Notified<'n> {
    notify: &'n Notify,
    round: u64,
    place: Option<u64>,
    done: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(());
        }
        let mut state = lock(&this.notify.state);
        if state.round != this.round {
            // A grant that came beside it is for somebody else: the drop hands it on.
            return Poll::Ready(());
        }
        if state.waiters.take(this.place) || std::mem::take(&mut state.kept) {
            // It may have been in line when it took the kept wake.
            state.waiters.leave(this.place);
            this.done = true;
            return Poll::Ready(());
        }
        state.waiters.wait(&mut this.place, context.waker());
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.done || self.place.is_none() {
            return;
        }
        let mut state = lock(&self.notify.state);
        let mut waker = None;
        if state.waiters.leave(self.place) {
            waker = state.waiters.grant();
            state.kept |= waker.is_none();
        }
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("kept", &lock(&self.state).kept).finish_non_exhaustive()
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").field("done", &self.done).finish_non_exhaustive()
    }
}
