// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounded channels of the library, whose receiver is a worker: [`many_to_one`], [`one_to_one`] and [`oneshot`].
//!
//! Senders are tasks of any worker of the process. A send is an operation, done when its value is in the channel: it may have a limit of
//! time, and may be [recalled](Send::recall) with its value. That it is done comes with the worker's next events, so values that are
//! sent one after the other cost a turn each, and several that are under way share it; where only speed counts, and where other
//! threads send, use [`mpsc`](super::mpsc).
//!
//! ```
//! # use quoit::sync::channel;
//! # let runtime = quoit::Runtime::new()?;
//! # let mut executor = runtime.worker().executor()?;
//! # executor.block_on(async {
//! let (sender, mut receiver) = channel::many_to_one(16).await?;
//! for worker in 0..2 {
//!     let (sender, runtime) = (sender.clone(), runtime.clone());
//!     std::thread::spawn(move || {
//!         let mut executor = runtime.worker().executor()?;
//!         executor.block_on(async {
//!             for number in 0..100 {
//!                 sender.send((worker, number)).await?;
//!             }
//!             quoit::Result::Ok(())
//!         })?
//!     });
//! }
//! drop(sender);
//! let mut sum = 0;
//! while let Some((_worker, number)) = receiver.recv().await? {
//!     sum += number;
//! }
//! assert_eq!(sum, 2 * 4950);
//! # quoit::Result::Ok(()) })??;
//! # quoit::Result::Ok(())
//! ```
//!
//! Every value is dropped once: by who received it, or by its send when that fails; what is inside when the receiver is dropped, with the
//! receiver, and when its worker ends before, with the last of the channel's ends.

use super::values::Values;
use crate::ask::nanos;
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::rt::core::{current, Core};
use crate::rt::inbox::Inbox;
use crate::rt::op::Op;
use crate::rt::slots::{Heir, Sink};
use quoit_sys as sys;
use std::cell::Cell;
use std::fmt;
use std::future::{poll_fn, Future};
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

/// Messages that may be told to a receiver that does not ask; the others stay in the channel.
const TOLD_MAX: u32 = 64;

/// Senders of any worker: [`Sender`]s of this kind may be cloned.
#[derive(Debug)]
pub struct ManyToOne(());

/// The sender belongs to the worker that sends first.
#[derive(Debug)]
pub struct OneToOne(());

/// A channel that holds up to `capacity` values, 1 to 1048576, of any number of senders.
///
/// # Errors
/// `QUOIT_E_FIELD` if the capacity is none.
///
/// # Panics
/// Outside of `block_on`.
pub async fn many_to_one<T: 'static>(capacity: u32) -> Result<(Sender<T>, Receiver<T>)> {
    let (end, receiver) = open(capacity, sys::QUOIT_CHANNEL_MANY_TO_ONE).await?;
    Ok((Sender { end, kind: PhantomData }, receiver))
}

/// The same of one sender. It may move to another worker before it sends, not later: `QUOIT_E_BUSY`.
///
/// # Errors
/// `QUOIT_E_FIELD` if the capacity is none.
///
/// # Panics
/// Outside of `block_on`.
pub async fn one_to_one<T: 'static>(capacity: u32) -> Result<(Sender<T, OneToOne>, Receiver<T>)> {
    let (end, receiver) = open(capacity, sys::QUOIT_CHANNEL_ONE_TO_ONE).await?;
    Ok((Sender { end, kind: PhantomData }, receiver))
}

/// A channel for one value.
///
/// ```
/// # use quoit::sync::channel;
/// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
/// # executor.block_on(async {
/// let (sender, receiver) = channel::oneshot().await?;
/// quoit::spawn(async move { sender.send(7).await });
/// assert_eq!(receiver.await?, 7);
/// # quoit::Result::Ok(()) })??;
/// # quoit::Result::Ok(())
/// ```
///
/// # Panics
/// Outside of `block_on`.
pub async fn oneshot<T: 'static>() -> Result<(OnceSender<T>, OnceReceiver<T>)> {
    let (end, receiver) = open(1, sys::QUOIT_CHANNEL_ONESHOT).await?;
    Ok((OnceSender { end }, OnceReceiver { receiver }))
}

async fn open<T: 'static>(capacity: u32, arg: u32) -> Result<(SendEnd<T>, Receiver<T>)> {
    let core = current();
    let channel = sys::quoit_op { len: capacity, arg, ..op(sys::QUOIT_OP_CHANNEL, Handle::NONE, 0) };
    let (_, done) = Op::plain(&core, channel).await;
    check_event(done.event.result)?;
    let (handle, values) = (Handle::from_raw(done.event.value), Arc::new(Values::new()));
    let end = SendEnd { handle, values: Arc::clone(&values) };
    let told_max = capacity.min(TOLD_MAX) as usize;
    let (inbox, eof, closing) = (Inbox::new(), Cell::new(false), Cell::new(false));
    let inner = Inner { core, handle, values, inbox, eof, closing, told_max };
    Ok((end, Receiver { inner: Rc::new(inner) }))
}

/// One of those that may send: a sender, or a send under way.
struct SendEnd<T> {
    handle: Handle,
    values: Arc<Values<T>>,
}

impl<T> Clone for SendEnd<T> {
    fn clone(&self) -> SendEnd<T> {
        self.values.add_sender();
        SendEnd { handle: self.handle, values: Arc::clone(&self.values) }
    }
}

impl<T> Drop for SendEnd<T> {
    fn drop(&mut self) {
        self.values.remove_sender();
    }
}

impl<T: 'static> SendEnd<T> {
    fn send(self, value: T, limit: Option<Duration>) -> Send<T> {
        let core = current();
        let key = self.values.insert(value);
        let timeout_ns = limit.map_or(0, |limit| nanos(limit).max(1));
        let send = op(sys::QUOIT_OP_CHANNEL_SEND, self.handle, 0);
        let op = Op::plain(&core, sys::quoit_op { addr: key, timeout_ns, ..send });
        Send { op, key, end: Some(self) }
    }
}

/// Puts values in. When all are gone, and with them the sends under way, the receiver is told.
pub struct Sender<T, K = ManyToOne> {
    end: SendEnd<T>,
    kind: PhantomData<fn() -> K>,
}

impl<T: 'static, K> Sender<T, K> {
    /// Puts a value in, once there is room. It begins with this call. Dropping the future asks it to end: the value is then
    /// dropped too, unless it is in the channel by then; [`Send::recall`] gives it back instead.
    ///
    /// # Errors
    /// `EPIPE` or `QUOIT_E_STALE` if the receiver or its worker is gone, `QUOIT_E_BUSY` if another worker is the sender of a one-to-one
    /// channel. The value comes back with each.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub fn send(&self, value: T) -> Send<T> {
        self.end.clone().send(value, None)
    }

    /// The same with a limit of time: after it the value comes back with `ETIMEDOUT`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub fn send_timeout(&self, value: T, limit: Duration) -> Send<T> {
        self.end.clone().send(value, Some(limit))
    }

    /// True if the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.end.values.receiver_is_gone()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { end: self.end.clone(), kind: PhantomData }
    }
}

/// Gives the one value of a [`oneshot`]. Dropping it without tells the receiver.
pub struct OnceSender<T> {
    end: SendEnd<T>,
}

impl<T: 'static> OnceSender<T> {
    /// Gives the value; as [`Sender::send`].
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub fn send(self, value: T) -> Send<T> {
        self.end.send(value, None)
    }

    /// True if the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.end.values.receiver_is_gone()
    }
}

/// Why a value is not in the channel: here it is.
pub struct SendError<T> {
    /// The value.
    pub value: T,
    /// What happened.
    pub error: Error,
}

/// A send under way, made by [`Sender::send`].
pub struct Send<T: 'static> {
    op: Op,
    key: u64,
    /// None when it is done.
    end: Option<SendEnd<T>>,
}

impl<T> Send<T> {
    /// Asks the send to end and waits for that: the value, if it is not in the channel by then.
    pub async fn recall(mut self) -> Option<T> {
        self.op.ask_to_end();
        (&mut self).await.err().map(|error| error.value)
    }
}

impl<T> Future for Send<T> {
    type Output = std::result::Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (_, done) = ready!(Pin::new(&mut self.op).poll(context));
        let end = self.end.take().expect("an operation ends once");
        let values = &end.values;
        Poll::Ready(match check_event(done.event.result) {
            Ok(_) => {
                drop(values.entered(self.key));
                Ok(())
            }
            // Without its value it went all the same, with an end that nobody was left to tell.
            Err(error) => values.take(self.key).map_or(Ok(()), |value| Err(SendError { value, error })),
        })
    }
}

/// Nothing in it is pinned: the value lies in the table.
impl<T> Unpin for Send<T> {}

impl<T> Drop for Send<T> {
    fn drop(&mut self) {
        let Some(end) = &self.end else { return };
        let values = Arc::clone(&end.values);
        if self.op.is_started() {
            self.op.leave_to(Rc::new(Dropped { values }), self.key);
        } else {
            drop(values.take(self.key));
        }
    }
}

/// Learns how a dropped send ended.
struct Dropped<T> {
    values: Arc<Values<T>>,
}

impl<T> Heir for Dropped<T> {
    fn ended(&self, key: u64, event: &sys::quoit_event) {
        drop(if event.result < 0 { self.values.take(key) } else { self.values.entered(key) });
    }
}

/// Takes values out, in each sender's order. It stays on the worker where it was made.
pub struct Receiver<T: 'static> {
    inner: Rc<Inner<T>>,
}

struct Inner<T> {
    core: Rc<Core>,
    handle: Handle,
    values: Arc<Values<T>>,
    inbox: Inbox<u64>,
    eof: Cell<bool>,
    /// All senders are gone, and the channel was asked to end when its receiver has all.
    closing: Cell<bool>,
    told_max: usize,
}

impl<T> Receiver<T> {
    /// The next value, or none when all senders are gone and nothing is inside. Dropping the future loses nothing.
    ///
    /// Beside the values in the channel, those that one turn brought may wait here.
    pub async fn recv(&mut self) -> Result<Option<T>> {
        poll_fn(|context| self.inner.poll_recv(context)).await
    }
}

impl<T: 'static> Inner<T> {
    fn poll_recv(self: &Rc<Self>, context: &Context<'_>) -> Poll<Result<Option<T>>> {
        while let Some(key) = self.inbox.pop() {
            // Without a value its send was told an error, by a worker that ended.
            if let Some(value) = self.values.take(key) {
                return Poll::Ready(Ok(Some(value)));
            }
        }
        if self.eof.get() {
            return Poll::Ready(Ok(None));
        }
        if let Some(error) = self.inbox.end.take() {
            return Poll::Ready(Err(error));
        }
        if self.core.is_closed() {
            return Poll::Ready(Err(Error::CLOSED));
        }
        self.inbox.wait_for_more(context, || {
            let sink: Rc<dyn Sink> = Rc::clone(self) as Rc<dyn Sink>;
            let receive = op(sys::QUOIT_OP_CHANNEL_RECV, self.handle, 0);
            self.core.start_many(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, ..receive }, sink);
        });
        // With the receive armed all that is inside comes at once, and then the end.
        let all_gone = self.values.watch_senders(context.waker());
        if all_gone && !self.inbox.is_cancelling() && !self.closing.replace(true) {
            self.core.close(self.handle, false);
        }
        Poll::Pending
    }
}

impl<T> Sink for Inner<T> {
    fn event(&self, core: &Core, event: &sys::quoit_event) {
        self.inbox.begin_event(event);
        if event.flags & sys::QUOIT_EVF_MESSAGE != 0 {
            let mut items = self.inbox.items.borrow_mut();
            items.push_back(event.value);
            if items.len() >= self.told_max && !self.closing.get() {
                self.inbox.cancel(core, self.handle, sys::QUOIT_OP_CHANNEL_RECV);
            }
        } else if let Err(error) = check_event(event.result) {
            self.inbox.fail(error);
        }
        if event.flags & sys::QUOIT_EVF_EOF != 0 {
            self.eof.set(true);
        }
        self.inbox.end_event();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if !self.inner.eof.get() {
            self.inner.core.close(self.inner.handle, true);
        }
        drop(self.inner.values.remove_receiver());
    }
}

/// Waits for the one value of a [`oneshot`]. `QUOIT_E_CLOSED` if its sender is gone without giving it.
pub struct OnceReceiver<T: 'static> {
    receiver: Receiver<T>,
}

impl<T> Future for OnceReceiver<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let value = ready!(self.receiver.inner.poll_recv(context))?;
        Poll::Ready(value.ok_or(Error::CLOSED))
    }
}

impl<T> From<SendError<T>> for Error {
    fn from(error: SendError<T>) -> Error {
        error.error
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for SendError<T> {}

macro_rules! debug {
    ($($name:ty, $this:ident => $shown:expr;)*) => {$(
        impl<T> fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $this = self;
                write!(f, "{}({:?})", stringify!($name).split('<').next().unwrap_or_default(), $shown)
            }
        }
    )*};
}

debug! {
    SendError<T>, this => this.error;
    Send<T>, this => this.key;
    OnceSender<T>, this => this.end.handle;
    Receiver<T>, this => this.inner.handle;
    OnceReceiver<T>, this => this.receiver.inner.handle;
}

impl<T, K> fmt::Debug for Sender<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({:?})", self.end.handle)
    }
}
