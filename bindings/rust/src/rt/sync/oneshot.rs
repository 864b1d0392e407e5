// SPDX-License-Identifier: MIT OR Apache-2.0
//! One value, once.
//!
//! ```
//! # use quoit::sync::oneshot;
//! # let mut executor = quoit::Runtime::new()?.worker().executor()?;
//! # executor.block_on(async {
//! let (sender, receiver) = oneshot::channel();
//! std::thread::spawn(move || sender.send(7));
//! assert_eq!(receiver.await, Ok(7));
//! # })?;
//! # quoit::Result::Ok(())
//! ```

use super::{lock, Closed};
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: Option<T>,
    sender_gone: bool,
    receiver_gone: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

/// Gives the value. Dropping it closes the channel.
pub struct Sender<T> {
    state: Arc<Mutex<State<T>>>,
}

/// Waits for the value.
pub struct Receiver<T> {
    state: Arc<Mutex<State<T>>>,
}

/// A channel for one value.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { value: None, sender_gone: false, receiver_gone: false, receiver: None, sender: None };
    let state = Arc::new(Mutex::new(state));
    (Sender { state: Arc::clone(&state) }, Receiver { state })
}

impl<T> Sender<T> {
    /// Gives the value; it comes back if the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.receiver_gone {
            return Err(value);
        }
        state.value = Some(value);
        // The drop wakes the receiver.
        drop(state);
        Ok(())
    }

    /// True if the receiver is gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).receiver_gone
    }

    /// Waits until the receiver is gone.
    pub async fn closed(&mut self) {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.receiver_gone {
                return Poll::Ready(());
            }
            state.sender = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.sender_gone = true;
        let receiver = state.receiver.take();
        drop(state);
        receiver.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// The value, if it is there by now.
    pub fn try_recv(&mut self) -> Result<Option<T>, Closed> {
        let mut state = lock(&self.state);
        match state.value.take() {
            None if state.sender_gone => Err(Closed),
            value => Ok(value),
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let mut state = lock(&self.state);
        match state.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if state.sender_gone => Poll::Ready(Err(Closed)),
            None => {
                state.receiver = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.receiver_gone = true;
        let (value, sender) = (state.value.take(), state.sender.take());
        drop(state);
        drop(value);
        sender.into_iter().for_each(Waker::wake);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
