// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends as futures, and what became of those whose futures were dropped.

use crate::error::{check_event, Error, Result};
use crate::rt::lease::SendBuf;
use crate::rt::op::Op;
use crate::rt::slots::{Heir, Owned};
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};

/// How far a send came whose future was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedSend {
    /// How many bytes it had.
    pub len: usize,
    /// How many of them, from the first on, are with the kernel.
    pub sent: usize,
}

struct Record {
    number: u64,
    len: usize,
    sent: Option<usize>,
}

/// The dropped sends of a stream. While it has any, the stream takes no new send: nobody knows what the peer would make of
/// bytes that follow half a message.
#[derive(Default)]
pub(crate) struct Sends {
    started: Cell<u64>,
    dropped: RefCell<Vec<Record>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Sends {
    /// A new send, or the error of one that may not begin.
    pub(crate) fn begin(&self) -> Result<u64> {
        if !self.is_settled() {
            return Err(Error::BUSY);
        }
        self.started.set(self.started.get() + 1);
        Ok(self.started.get())
    }

    /// True if none is dropped, or each has been told of.
    pub(crate) fn is_settled(&self) -> bool {
        self.dropped.borrow().is_empty()
    }

    /// What became of them, once all are known, in the order in which they began.
    pub(crate) fn poll_settled(&self, context: &mut Context<'_>) -> Poll<Vec<DroppedSend>> {
        let mut dropped = self.dropped.borrow_mut();
        if dropped.iter().any(|record| record.sent.is_none()) {
            self.waiting.borrow_mut().push(context.waker().clone());
            return Poll::Pending;
        }
        dropped.sort_by_key(|record| record.number);
        let told = |record: Record| DroppedSend { len: record.len, sent: record.sent.unwrap_or(0) };
        Poll::Ready(dropped.drain(..).map(told).collect())
    }
}

impl Heir for Sends {
    fn ended(&self, number: u64, event: &sys::quoit_event) {
        if let Some(record) = self.dropped.borrow_mut().iter_mut().find(|record| record.number == number) {
            let sent = if event.result < 0 { event.value } else { event.result as u64 };
            record.sent = Some(usize::try_from(sent).unwrap_or(record.len).min(record.len));
        }
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// A send under way.
pub(crate) struct Send<T> {
    op: Op,
    sends: Rc<Sends>,
    number: u64,
    len: usize,
    done: bool,
    back: fn(Owned) -> T,
}

impl<T> Send<T> {
    /// `op` is the operation of `sends.begin()`, or one that was refused with its error.
    pub(crate) fn new(
        op: Op,
        sends: &Rc<Sends>,
        number: Result<u64>,
        len: usize,
        back: fn(Owned) -> T,
    ) -> Send<T> {
        let done = number.is_err();
        Send { op, sends: Rc::clone(sends), number: number.unwrap_or(0), len, done, back }
    }
}

/// A send of one piece of memory.
pub(crate) fn of_buffer<B: SendBuf>(
    op: Op,
    sends: &Rc<Sends>,
    number: Result<u64>,
    len: usize,
) -> Send<B::Back> {
    Send::new(op, sends, number, len, B::from_owned)
}

impl<T> Future for Send<T> {
    type Output = (Result<usize>, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Result<usize>, T)> {
        let (owned, done) = ready!(Pin::new(&mut self.op).poll(context));
        self.done = true;
        Poll::Ready((check_event(done.event.result).map(|count| count as usize), (self.back)(owned)))
    }
}

impl<T> Drop for Send<T> {
    fn drop(&mut self) {
        // An operation that was refused sends nothing and owes no account.
        if !self.done && self.op.is_started() {
            let record = Record { number: self.number, len: self.len, sent: None };
            self.sends.dropped.borrow_mut().push(record);
            self.op.leave_to(Rc::clone(&self.sends) as Rc<dyn Heir>, self.number);
        }
    }
}
