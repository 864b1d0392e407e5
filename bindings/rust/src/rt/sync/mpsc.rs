// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bounded queue from many senders to one receiver.
//!
//! ```
//! # use quoit::sync::mpsc;
//! # let mut executor = quoit::Runtime::new()?.worker().executor()?;
//! # executor.block_on(async {
//! let (sender, mut receiver) = mpsc::channel(2);
//! quoit::spawn(async move {
//!     for number in 0..10 {
//!         // Waits while two are in the queue.
//!         sender.send(number).await?;
//!     }
//!     Ok::<(), mpsc::SendError<i32>>(())
//! });
//! let mut sum = 0;
//! while let Some(number) = receiver.recv().await {
//!     sum += number;
//! }
//! assert_eq!(sum, 45);
//! # })?;
//! # quoit::Result::Ok(())
//! ```

use super::waiters::Waiters;
use super::{lock, Closed};
use crate::error::Error;
use std::collections::VecDeque;
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

struct State<T> {
    queue: VecDeque<T>,
    /// Places that nobody has taken. While somebody waits in line there are none.
    free: usize,
    senders: usize,
    receiver_gone: bool,
    waiters: Waiters,
    receiver: Option<Waker>,
}

impl<T> State<T> {
    /// A place is free again: it goes to the first in line.
    fn free_one(&mut self) -> Option<Waker> {
        let waker = self.waiters.grant();
        self.free += usize::from(waker.is_none());
        waker
    }
}

/// Puts values in. Clones put into the same queue; when all are gone the receiver is told.
pub struct Sender<T> {
    state: Arc<Mutex<State<T>>>,
}

/// Takes values out, in the order in which they were put in.
pub struct Receiver<T> {
    state: Arc<Mutex<State<T>>>,
}

/// The receiver is gone: here is the value.
#[derive(PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why a value cannot be put in at once: here it is.
#[derive(PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The queue is full.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Why no value can be taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none yet.
    Empty,
    /// There is none, and all senders are gone.
    Closed,
}

/// A queue of at most so many values.
///
/// # Panics
/// If the capacity is zero.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel's capacity must not be zero");
    let state = Arc::new(Mutex::new(State {
        queue: VecDeque::new(),
        free: capacity,
        senders: 1,
        receiver_gone: false,
        waiters: Waiters::default(),
        receiver: None,
    }));
    (Sender { state: Arc::clone(&state) }, Receiver { state })
}

impl<T> Sender<T> {
    /// Puts a value in, once there is room. If the future is dropped before, the value is not put in and dropped with it; where
    /// it must not be lost, [`Sender::reserve`] first.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.reserve().await {
            Ok(permit) => permit.send(value),
            Err(Closed) => Err(SendError(value)),
        }
    }

    /// Waits for room. Dropping the future, or the permit, gives the room to the next in line.
    pub fn reserve(&self) -> Reserve<'_, T> {
        Reserve { sender: self, place: None, done: false }
    }

    /// Puts a value in if there is room.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = lock(&self.state);
        if state.receiver_gone {
            return Err(TrySendError::Closed(value));
        }
        if state.free == 0 {
            return Err(TrySendError::Full(value));
        }
        state.free -= 1;
        drop(state);
        let permit = Permit { sender: self, used: false };
        permit.send(value).map_err(|error| TrySendError::Closed(error.0))
    }

    /// True if the receiver is gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).receiver_gone
    }
}

/// The future of [`Sender::reserve`].
pub struct Reserve<'s, T> {
    sender: &'s Sender<T>,
    place: Option<u64>,
    done: bool,
}

impl<'s, T> Future for Reserve<'s, T> {
    type Output = Result<Permit<'s, T>, Closed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = lock(&this.sender.state);
        if state.receiver_gone {
            return Poll::Ready(Err(Closed));
        }
        if state.waiters.take(this.place) {
            this.done = true;
            return Poll::Ready(Ok(Permit { sender: this.sender, used: false }));
        }
        if this.place.is_none() && state.free > 0 {
            state.free -= 1;
            this.done = true;
            return Poll::Ready(Ok(Permit { sender: this.sender, used: false }));
        }
        state.waiters.wait(&mut this.place, context.waker());
        Poll::Pending
    }
}

impl<T> Drop for Reserve<'_, T> {
    fn drop(&mut self) {
        if self.done || self.place.is_none() {
            return;
        }
        let mut state = lock(&self.sender.state);
        let waker = if state.waiters.leave(self.place) { state.free_one() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Room for one value.
pub struct Permit<'s, T> {
    sender: &'s Sender<T>,
    used: bool,
}

impl<T> Permit<'_, T> {
    /// Puts the value in. It comes back if the receiver is gone.
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        let mut state = lock(&self.sender.state);
        if state.receiver_gone {
            return Err(SendError(value));
        }
        self.used = true;
        state.queue.push_back(value);
        let receiver = state.receiver.take();
        drop(state);
        receiver.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let waker = lock(&self.sender.state).free_one();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        lock(&self.state).senders += 1;
        Sender { state: Arc::clone(&self.state) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.senders -= 1;
        let receiver = if state.senders == 0 { state.receiver.take() } else { None };
        drop(state);
        receiver.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// The next value, or none when all senders are gone and the queue is empty. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| match self.try_recv() {
            Ok(value) => Poll::Ready(Some(value)),
            Err(TryRecvError::Closed) => Poll::Ready(None),
            Err(TryRecvError::Empty) => {
                let mut state = lock(&self.state);
                if !state.queue.is_empty() || state.senders == 0 {
                    // It came between the two looks: look again.
                    context.waker().wake_by_ref();
                } else {
                    state.receiver = Some(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }

    /// The next value, if there is one now.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut state = lock(&self.state);
        let Some(value) = state.queue.pop_front() else {
            return Err(if state.senders == 0 { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        let waker = state.free_one();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(value)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.receiver_gone = true;
        let (queue, wakers) = (std::mem::take(&mut state.queue), state.waiters.clear());
        drop(state);
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<T> From<SendError<T>> for Error {
    fn from(_: SendError<T>) -> Error {
        Error::CLOSED
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Closed, f)
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrySendError::Full(_) => f.write_str("the channel is full"),
            TrySendError::Closed(_) => fmt::Display::fmt(&Closed, f),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => f.write_str("the channel is empty"),
            TryRecvError::Closed => fmt::Display::fmt(&Closed, f),
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, TrySendError::Full(_)) { "Full(..)" } else { "Closed(..)" })
    }
}

impl<T> std::error::Error for SendError<T> {}
impl<T> std::error::Error for TrySendError<T> {}
impl std::error::Error for TryRecvError {}

macro_rules! debug {
    ($($name:ty),*) => {$(
        impl<T> fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), " { .. }"))
            }
        }
    )*};
}

debug!(Sender<T>, Receiver<T>, Reserve<'_, T>, Permit<'_, T>);
