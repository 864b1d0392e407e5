//! The operations under way: who waits for each, and the memory that each owns until its last event.

use super::core::Core;
use super::lease::Lease;
use super::unblock::Job;
use crate::error::Error;
use quoit_sys as sys;
use std::collections::VecDeque;
use std::mem::replace;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// Memory that an operation uses. It stays in the operation's slot until the last event, whatever becomes of the future.
pub enum Owned {
    None,
    Vec(Vec<u8>),
    Shared(#[allow(dead_code)] Arc<[u8]>),
    Static(&'static [u8]),
    Lease(Lease),
    Many(Vec<Vec<u8>>, #[allow(dead_code)] Vec<sys::quoit_iov>),
    Job(#[allow(dead_code)] Job),
}

/// Takes the events of an operation that brings many.
pub(crate) trait Sink {
    fn event(&self, core: &Core, event: &sys::quoit_event);
}

/// A last event, and the turn that brought it.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) event: sys::quoit_event,
    pub(crate) turn: u64,
}

enum State {
    Free,
    Waiting(Owned, Option<Waker>),
    Done(Owned, Done),
    /// The future is gone; the memory waits for the last event.
    Abandoned(Owned),
    Many(Rc<dyn Sink>),
}

struct Slot {
    generation: u32,
    state: State,
}

/// A table of operations. A key is the slot's generation and index, and the operation's user_data.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
}

impl Slots {
    fn insert(&mut self, state: State) -> u64 {
        let index = match self.free.pop_front() {
            Some(index) => {
                self.slots[index as usize].state = state;
                index
            }
            None => {
                // Generations begin at 1: a cancel by key 0 would mean "any".
                self.slots.push(Slot { generation: 1, state });
                (self.slots.len() - 1) as u32
            }
        };
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    pub(crate) fn insert_once(&mut self, owned: Owned) -> u64 {
        self.insert(State::Waiting(owned, None))
    }

    pub(crate) fn insert_many(&mut self, sink: Rc<dyn Sink>) -> u64 {
        self.insert(State::Many(sink))
    }

    fn at(&mut self, key: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        (slot.generation == (key >> 32) as u32 && !matches!(slot.state, State::Free)).then_some(slot)
    }

    /// The sink of an operation, if it has one.
    pub(crate) fn sink(&self, key: u64) -> Option<Rc<dyn Sink>> {
        let slot = self.slots.get(key as u32 as usize)?;
        match &slot.state {
            State::Many(sink) if slot.generation == (key >> 32) as u32 => Some(Rc::clone(sink)),
            _ => None,
        }
    }

    fn free(&mut self, key: u64) -> State {
        let Some(slot) = self.at(key) else { return State::Free };
        let state = replace(&mut slot.state, State::Free);
        slot.generation = slot.generation.wrapping_add(1).max(1);
        self.free.push_back(key as u32);
        state
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.free(key);
    }

    /// Notes the last event: gives who is to be woken, or the memory of an abandoned operation, which then ends.
    pub(crate) fn finish(&mut self, key: u64, done: Done) -> Option<Result<Option<Waker>, Owned>> {
        let slot = self.at(key)?;
        match replace(&mut slot.state, State::Free) {
            State::Waiting(owned, waker) => {
                slot.state = State::Done(owned, done);
                Some(Ok(waker))
            }
            State::Abandoned(owned) => {
                // Put back, so that it is freed by the one rule for it.
                slot.state = State::Abandoned(Owned::None);
                self.free(key);
                Some(Err(owned))
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// The end of an operation, if it has come; else whom to wake then.
    pub(crate) fn take(&mut self, key: u64, waker: &Waker) -> Option<(Owned, Done)> {
        // Without a slot the executor has ended meanwhile.
        let Some(slot) = self.at(key) else { return Some((Owned::None, Slots::refused(0, Error::CLOSED))) };
        match &mut slot.state {
            State::Waiting(_, waiting) => {
                match waiting {
                    Some(known) => known.clone_from(waker),
                    None => *waiting = Some(waker.clone()),
                }
                None
            }
            _ => match self.free(key) {
                State::Done(owned, done) => Some((owned, done)),
                _ => unreachable!("a future's slot waits or is done"),
            },
        }
    }

    /// The future is dropped. If the operation has ended, its memory and event come back; else the slot keeps the memory.
    pub(crate) fn abandon(&mut self, key: u64) -> Option<(Owned, Done)> {
        let slot = self.at(key)?;
        match replace(&mut slot.state, State::Free) {
            State::Waiting(owned, _) => {
                slot.state = State::Abandoned(owned);
                None
            }
            state => {
                slot.state = state;
                match self.free(key) {
                    State::Done(owned, done) => Some((owned, done)),
                    _ => None,
                }
            }
        }
    }

    /// Ends the table. Without a last event for each, the kernel or a native call may still use the memory: it is leaked.
    pub(crate) fn end(self, drained: bool) {
        for slot in self.slots {
            if let State::Waiting(owned, _) | State::Abandoned(owned) = slot.state {
                if !drained {
                    std::mem::forget(owned);
                }
            }
        }
    }

    /// An event for an operation that never was handed over.
    pub(crate) fn refused(opcode: u32, error: Error) -> Done {
        let event =
            sys::quoit_event { kind: opcode, result: i64::from(error.status()), ..Default::default() };
        Done { event, turn: 0 }
    }
}
