// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners, streams and UDP sockets.
//!
//! [`Listener`] and [`Stream`] are for any address; [`TcpListener`], [`TcpStream`], [`UnixListener`] and [`UnixStream`] are the
//! same for one kind of it.
//!
//! Futures may be dropped at any time, as `select!` does. Dropping an accept or a receive loses nothing: what came waits for
//! the next call. Dropping a send cancels it, and [`Stream::settle`] tells how much of it went.
//!
//! With the feature `futures-io` or `tokio-io`, streams and their halves have the traits `AsyncRead` and `AsyncWrite` of that
//! crate. What `poll_write` takes is copied and sent in the background: a later call tells if that failed.

#[cfg(feature = "futures-io")]
mod futures;
mod halves;
mod listener;
mod sends;
mod stream;
#[cfg(feature = "tokio-io")]
mod tokio;
mod typed;
mod udp;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod written;

pub use halves::{ReadHalf, WriteHalf};
pub use listener::Listener;
pub use sends::DroppedSend;
pub use stream::Stream;
pub use typed::{TcpListener, TcpStream, UnixListener, UnixStream};
pub use udp::{Datagram, UdpSocket};

use super::op::Op;
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

/// What an operation of many events has brought, until somebody takes it.
struct Inbox<T> {
    items: RefCell<VecDeque<T>>,
    waiting: RefCell<Vec<Waker>>,
    /// Its operation is under way.
    armed: Cell<bool>,
    /// How the operation ended, if not by our own cancel.
    end: Cell<Option<Error>>,
    /// The user-facing object has been dropped.
    dropped: Cell<bool>,
}

impl<T> Inbox<T> {
    fn new() -> Inbox<T> {
        Inbox {
            items: RefCell::default(),
            waiting: RefCell::default(),
            armed: Cell::new(false),
            end: Cell::new(None),
            dropped: Cell::new(false),
        }
    }

    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake(&self) {
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The object that an operation makes.
pub(crate) async fn result_with_value(op: Op) -> Result<Handle> {
    let (_, done) = op.await;
    check_event(done.event.result).map(|_| Handle::from_raw(done.event.value))
}
