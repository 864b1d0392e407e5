// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operation of many events has brought, until somebody takes it. So a receive may be dropped at any time.

use super::core::Core;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

pub(crate) struct Inbox<T> {
    pub(crate) items: RefCell<VecDeque<T>>,
    waiting: RefCell<Vec<Waker>>,
    /// Its operation is under way.
    armed: Cell<bool>,
    /// Its operation was asked to end, by us.
    cancelling: Cell<bool>,
    /// How the operation ended, if not by our own cancel.
    pub(crate) end: Cell<Option<Error>>,
    /// The user-facing object has been dropped.
    pub(crate) dropped: Cell<bool>,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Inbox<T> {
        Inbox {
            items: RefCell::default(),
            waiting: RefCell::default(),
            armed: Cell::new(false),
            cancelling: Cell::new(false),
            end: Cell::new(None),
            dropped: Cell::new(false),
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.get()
    }

    pub(crate) fn is_cancelling(&self) -> bool {
        self.cancelling.get()
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.items.borrow_mut().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    pub(crate) fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Waits for more; `start` begins the operation unless it is under way.
    pub(crate) fn wait_for_more(&self, context: &Context<'_>, start: impl FnOnce()) {
        self.wait(context.waker());
        if !self.armed.replace(true) {
            start();
        }
    }

    /// The next item. Without one, how the operation ended is told once, and the next call begins it again.
    pub(crate) fn poll_next(
        &self,
        core: &Core,
        context: &Context<'_>,
        start: impl FnOnce(),
    ) -> Poll<Result<T>> {
        if let Some(item) = self.pop() {
            return Poll::Ready(Ok(item));
        }
        if let Some(error) = self.end.take() {
            return Poll::Ready(Err(error));
        }
        if core.is_closed() {
            return Poll::Ready(Err(Error::CLOSED));
        }
        self.wait_for_more(context, start);
        Poll::Pending
    }

    /// An event is being looked at; without MORE it is the operation's last.
    pub(crate) fn begin_event(&self, event: &sys::quoit_event) {
        if event.flags & sys::QUOIT_EVF_MORE == 0 {
            self.armed.set(false);
        }
    }

    /// The operation failed. One that we cancelled has lost nothing, and is begun again when somebody waits.
    pub(crate) fn fail(&self, error: Error) {
        if error != Error::CANCELED || !self.cancelling.get() {
            self.end.set(Some(error));
        }
    }

    /// The event has been looked at.
    pub(crate) fn end_event(&self) {
        if !self.armed.get() {
            self.cancelling.set(false);
        }
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Asks the operation to end, if it is under way.
    pub(crate) fn cancel(&self, core: &Core, handle: Handle, opcode: u32) {
        if self.armed.get() && !self.cancelling.replace(true) {
            core.tell(sys::quoit_op { arg: opcode, ..op(sys::QUOIT_OP_CANCEL, handle, 0) });
        }
    }

    /// The same, and waits until it has ended. What it brought by then is here.
    pub(crate) async fn stop(&self, core: &Core, handle: Handle, opcode: u32) {
        self.cancel(core, handle, opcode);
        poll_fn(|context| {
            if !self.armed.get() || core.is_closed() {
                return Poll::Ready(());
            }
            self.wait(context.waker());
            Poll::Pending
        })
        .await;
    }
}
