// SPDX-License-Identifier: MIT OR Apache-2.0
//! One operation as a future. Dropping it cancels the operation; its memory stays in its slot until the last event.

use super::core::Core;
use super::slots::{Done, Heir, Owned, Slots};
use crate::error::{check_event, Error, Result};
use crate::handle::Handle;
use crate::ops::op;
use quoit_sys as sys;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An operation under way that ends with one event.
pub(crate) struct Op {
    core: Rc<Core>,
    opcode: u32,
    target: Handle,
    state: State,
    /// Who is told the end if the future is dropped before it.
    heir: Option<(Rc<dyn Heir>, u64)>,
}

enum State {
    Started(u64),
    /// Never handed over: its memory comes back with the error.
    Refused(Error, Owned),
    Taken,
}

impl Op {
    /// Starts an operation without memory of its own: what it points at is copied by `push`, which hands it over.
    pub(crate) fn start(core: &Rc<Core>, op: sys::quoit_op, push: impl FnOnce(sys::quoit_op)) -> Op {
        Op::with(core, op, Owned::None, push)
    }

    /// Starts an operation that points at nothing.
    pub(crate) fn plain(core: &Rc<Core>, op: sys::quoit_op) -> Op {
        Op::with(core, op, Owned::None, |op| core.ops().push(op))
    }

    /// Starts an operation that uses memory which the slot owns from now on.
    ///
    /// # Safety
    /// What the op points at must be inside `owned`, at addresses that moving `owned` does not change, or live for ever.
    pub(crate) unsafe fn owning(core: &Rc<Core>, op: sys::quoit_op, owned: Owned) -> Op {
        // SAFETY: the memory is in the slot, which keeps it until the last event.
        Op::with(core, op, owned, |op| unsafe { core.ops().push_raw(op) })
    }

    /// Starts an operation whose slot owns memory; `push` hands it over with its user_data.
    pub(crate) fn with(
        core: &Rc<Core>,
        mut op: sys::quoit_op,
        owned: Owned,
        push: impl FnOnce(sys::quoit_op),
    ) -> Op {
        if core.is_closed() {
            return Op::refused(core, op, owned, Error::CLOSED);
        }
        op.user_data = core.slots().borrow_mut().insert_once(owned);
        push(op);
        Op::in_state(core, op, State::Started(op.user_data))
    }

    /// One that ends with an error at once, and gives the memory back.
    pub(crate) fn refused(core: &Rc<Core>, op: sys::quoit_op, owned: Owned, error: Error) -> Op {
        Op::in_state(core, op, State::Refused(error, owned))
    }

    fn in_state(core: &Rc<Core>, op: sys::quoit_op, state: State) -> Op {
        let (core, target) = (Rc::clone(core), Handle::from_raw(op.target));
        Op { core, opcode: op.opcode, target, state, heir: None }
    }

    /// True until its end has been taken, if it was handed over at all.
    pub(crate) fn is_started(&self) -> bool {
        matches!(self.state, State::Started(_))
    }

    /// When this is dropped, the heir is told the end, now or when it comes.
    pub(crate) fn leave_to(&mut self, heir: Rc<dyn Heir>, number: u64) {
        self.heir = Some((heir, number));
    }

    /// Asks it to end, if it has not yet; who polls it is told how it did.
    pub(crate) fn ask_to_end(&self) {
        if let State::Started(key) = self.state {
            self.cancel(key);
        }
    }

    /// Asks it to end by its user_data, which no other operation has.
    fn cancel(&self, key: u64) {
        // Its target may be another worker's: a send to a channel is no operation of that.
        let target = if self.opcode == sys::QUOIT_OP_CHANNEL_SEND { Handle::NONE } else { self.target };
        self.core.tell(sys::quoit_op { arg: self.opcode, arg2: key, ..op(sys::QUOIT_OP_CANCEL, target, 0) });
    }
}

impl Future for Op {
    type Output = (Owned, Done);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Owned, Done)> {
        let end = match std::mem::replace(&mut self.state, State::Taken) {
            State::Started(key) => {
                self.state = State::Started(key);
                self.core.slots().borrow_mut().take(key, context.waker())
            }
            State::Refused(error, owned) => Some((owned, Slots::refused(self.opcode, error))),
            State::Taken => panic!("quoit: an operation was polled after its end"),
        };
        match end {
            Some(end) => {
                self.state = State::Taken;
                Poll::Ready(end)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let State::Started(key) = self.state else { return };
        let heir = self.heir.take();
        let ended = self.core.slots().borrow_mut().abandon(key, heir);
        match ended {
            Some((left, done)) => self.core.discard(left, &done.event),
            None => self.cancel(key),
        }
    }
}

/// The result of an operation of which nothing else is wanted.
pub(crate) async fn result_of(op: Op) -> Result<u64> {
    let (_, done) = op.await;
    check_event(done.event.result)
}
