// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes that the traits of others write: they lend them for a moment only, so they are copied, and are sent in the background.

use super::stream::StreamInner;
use crate::ask::shutdown_arg;
use crate::error::{check_event, Error, Result};
use crate::ops::op;
use crate::rt::core::Core;
use crate::rt::op::Op;
use crate::rt::slots::Sink;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};

/// Bytes that may be under way; with more, a write waits. Far below what a stream may owe.
const UNDER_WAY_MAX: usize = 256 * 1024;
/// Bytes of one operation.
const PIECE_MAX: usize = 64 * 1024;

/// The sends of a stream that were begun by `poll_write`.
#[derive(Default)]
pub(crate) struct Written {
    /// Their lengths, in the order in which they end.
    under_way: RefCell<VecDeque<usize>>,
    bytes: Cell<usize>,
    error: Cell<Option<Error>>,
    waiting: RefCell<Vec<Waker>>,
    shutdown: RefCell<Option<Op>>,
}

impl Sink for Written {
    fn event(&self, _: &Core, event: &sys::quoit_event) {
        let len = self.under_way.borrow_mut().pop_front().unwrap_or(0);
        self.bytes.set(self.bytes.get() - len);
        if let Err(error) = check_event(event.result) {
            self.error.set(self.error.get().or(Some(error)));
        }
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Written {
    fn wait(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }
}

impl StreamInner {
    fn write_error(&self) -> Result<()> {
        match self.written.error.get() {
            Some(error) => Err(error),
            None if self.core.is_closed() => Err(Error::CLOSED),
            None => Ok(()),
        }
    }

    /// Takes some of the bytes; what a later failure leaves unsent is told by the next call. Nothing that was taken is ever
    /// cancelled, so the future around this may be dropped.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.write_error()?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Half a message may have gone before: as for any other send.
        self.sends.begin()?;
        let written = &self.written;
        let room = UNDER_WAY_MAX.saturating_sub(written.bytes.get());
        if room == 0 {
            written.wait(context);
            return Poll::Pending;
        }
        let piece = &bytes[..bytes.len().min(room).min(PIECE_MAX)];
        written.under_way.borrow_mut().push_back(piece.len());
        written.bytes.set(written.bytes.get() + piece.len());
        let sink: Rc<dyn Sink> = Rc::clone(written) as Rc<dyn Sink>;
        let send = op(sys::QUOIT_OP_SEND, self.handle, 0);
        let send = sys::quoit_op { len: piece.len() as u32, ..send };
        self.core.start_many_with(send, sink, |op| self.core.ops().push_with(op, piece));
        Poll::Ready(Ok(piece.len()))
    }

    /// Ready when all that was taken is with the kernel.
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.write_error()?;
        if self.written.bytes.get() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.written.wait(context);
        Poll::Pending
    }

    /// Flushes, then tells the peer that no more comes.
    pub(crate) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_flush(context))?;
        let mut shutdown = self.written.shutdown.borrow_mut();
        let ending = shutdown.get_or_insert_with(|| {
            let arg = shutdown_arg(Shutdown::Write);
            Op::plain(&self.core, sys::quoit_op { arg, ..op(sys::QUOIT_OP_SHUTDOWN, self.handle, 0) })
        });
        let (_, done) = ready!(Pin::new(ending).poll(context));
        *shutdown = None;
        Poll::Ready(check_event(done.event.result).map(|_| ()))
    }
}
