// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: sleeping, limits, intervals. The resolution is 1 ms; nothing fires early.

use super::core::{current, Core};
use super::op::{result_of, Op};
use super::slots::Sink;
use crate::ask::nanos;
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The error of a time limit that has passed.
pub(crate) const ETIMEDOUT: i32 = -110;

/// A time from now, on the clock of timers. What they count from by themselves is the batch's time, which is a little older.
fn deadline(after: u64) -> Result<i64> {
    // SAFETY: any clock may be asked for on any thread.
    let now = unsafe { sys::quoit_now(sys::QUOIT_CLOCK_MONOTONIC) };
    check_event(now)?;
    Ok(now.saturating_add_unsigned(after))
}

/// Waits for a time.
///
/// # Panics
/// Outside of `block_on`.
pub fn sleep(duration: Duration) -> impl Future<Output = Result<()>> {
    let core = current();
    let timer = deadline(nanos(duration)).map(|offset| {
        let flags = sys::QUOIT_OPF_ABS;
        Op::plain(&core, sys::quoit_op { flags, offset, ..op(sys::QUOIT_OP_TIMER, Handle::NONE, 0) })
    });
    async { result_of(timer?).await.map(|_| ()) }
}

/// Waits until a time, which may have passed.
///
/// # Panics
/// Outside of `block_on`.
pub fn sleep_until(time: Instant) -> impl Future<Output = Result<()>> {
    sleep(time.saturating_duration_since(Instant::now()))
}

/// The future's output, or `ETIMEDOUT` and the future is dropped.
///
/// # Panics
/// Outside of `block_on`.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    let mut limit = pin!(sleep(limit));
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        limit.as_mut().poll(context).map(|end| Err(end.err().unwrap_or(Error::from_status(ETIMEDOUT))))
    })
    .await
}

/// A periodic timer; its time goes on while nobody waits for it.
pub struct Interval {
    core: Rc<Core>,
    key: u64,
    shared: Rc<Ticks>,
}

#[derive(Default)]
struct Ticks {
    /// Expirations that nobody has taken yet.
    count: Cell<u64>,
    error: Cell<Option<Error>>,
    waiting: RefCell<Option<Waker>>,
}

impl Sink for Ticks {
    fn event(&self, _: &Core, event: &sys::quoit_event) {
        match check_event(event.result) {
            Ok(count) => self.count.set(self.count.get() + count),
            Err(error) => self.error.set(Some(error)),
        }
        let waiting = self.waiting.borrow_mut().take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Expires after every period, counted from this call: a tick that is taken late does not make the next one later.
///
/// # Panics
/// Outside of `block_on`, and if the period is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval's period must not be zero");
    let core = current();
    let shared = Rc::new(Ticks::default());
    let period = nanos(period);
    let timer = sys::quoit_op { arg2: period, ..op(sys::QUOIT_OP_TIMER, Handle::NONE, 0) };
    let timer = match deadline(period) {
        Ok(offset) => sys::quoit_op { flags: sys::QUOIT_OPF_ABS, offset, ..timer },
        Err(_) => sys::quoit_op { offset: period as i64, ..timer },
    };
    let sink: Rc<dyn Sink> = Rc::clone(&shared) as Rc<dyn Sink>;
    let key = core.start_many(timer, sink);
    Interval { core, key, shared }
}

impl Interval {
    /// Waits for the next expiration; gives how many there were since the last call.
    pub async fn tick(&mut self) -> Result<u64> {
        poll_fn(|context| match (self.shared.count.take(), self.shared.error.get()) {
            (0, Some(error)) => Poll::Ready(Err(error)),
            (0, None) => {
                *self.shared.waiting.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
            (count, _) => Poll::Ready(Ok(count)),
        })
        .await
    }
}

impl Drop for Interval {
    fn drop(&mut self) {
        let cancel = op(sys::QUOIT_OP_CANCEL, Handle::NONE, 0);
        self.core.tell(sys::quoit_op { arg: sys::QUOIT_OP_TIMER, arg2: self.key, ..cancel });
    }
}

impl std::fmt::Debug for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interval").field("waiting", &self.shared.count.get()).finish_non_exhaustive()
    }
}
