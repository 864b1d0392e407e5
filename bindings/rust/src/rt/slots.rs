// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations under way: who waits for each, and the memory that each owns until its last event.

use super::core::Core;
use super::lease::Lease;
use super::unblock::Job;
use crate::error::Error;
use quoit_sys as sys;
use std::collections::VecDeque;
use std::mem::replace;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// Memory that an operation uses, or a descriptor. It stays in the operation's slot until the last event, whatever becomes of the future.
pub enum Owned {
    None,
    Vec(Vec<u8>),
    Shared(#[allow(dead_code)] Arc<[u8]>),
    Static(&'static [u8]),
    Lease(Lease),
    Many(Vec<Vec<u8>>, #[allow(dead_code)] Vec<sys::quoit_iov>),
    Job(#[allow(dead_code)] Job),
    Fd(OwnedFd),
}

impl Owned {
    /// A descriptor changes its owner with the event that tells so.
    fn after(self, event: &sys::quoit_event) -> Owned {
        match self {
            Owned::Fd(fd) if event.kind == sys::QUOIT_OP_ADOPT && event.result >= 0 => {
                _ = fd.into_raw_fd();
                Owned::None
            }
            // SAFETY: the event gives the program an open descriptor to own; it comes once.
            Owned::None if event.kind == sys::QUOIT_OP_DETACH && event.result >= 0 => unsafe {
                Owned::Fd(OwnedFd::from_raw_fd(event.value as i32))
            },
            other => other,
        }
    }
}

/// Takes the events of an operation that brings many.
pub(crate) trait Sink {
    fn event(&self, core: &Core, event: &sys::quoit_event);
}

/// Is told how an operation ended whose future was dropped.
pub(crate) trait Heir {
    fn ended(&self, number: u64, event: &sys::quoit_event);
}

/// What a dropped future leaves: the memory, and who wants to know the end.
pub(crate) struct Left {
    pub(crate) owned: Owned,
    pub(crate) heir: Option<(Rc<dyn Heir>, u64)>,
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
    Abandoned(Left),
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
    pub(crate) fn finish(&mut self, key: u64, done: Done) -> Option<Result<Option<Waker>, Left>> {
        let slot = self.at(key)?;
        match replace(&mut slot.state, State::Free) {
            State::Waiting(owned, waker) => {
                slot.state = State::Done(owned.after(&done.event), done);
                Some(Ok(waker))
            }
            State::Abandoned(Left { owned, heir }) => {
                let left = Left { owned: owned.after(&done.event), heir };
                // Put back, so that it is freed by the one rule for it.
                slot.state = State::Abandoned(Left { owned: Owned::None, heir: None });
                self.free(key);
                Some(Err(left))
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
    pub(crate) fn abandon(&mut self, key: u64, heir: Option<(Rc<dyn Heir>, u64)>) -> Option<(Left, Done)> {
        let slot = self.at(key)?;
        match replace(&mut slot.state, State::Free) {
            State::Waiting(owned, _) => {
                slot.state = State::Abandoned(Left { owned, heir });
                None
            }
            state => {
                slot.state = state;
                match self.free(key) {
                    State::Done(owned, done) => Some((Left { owned, heir }, done)),
                    _ => None,
                }
            }
        }
    }

    /// Ends the table. Without a last event for each, the kernel or a native call may still use the memory: it is leaked.
    pub(crate) fn end(self, drained: bool) {
        for slot in self.slots {
            if let State::Waiting(owned, _) | State::Abandoned(Left { owned, .. }) = slot.state {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn done(result: i64) -> Done {
        Done { event: sys::quoit_event { result, ..Default::default() }, turn: 1 }
    }

    #[test]
    fn memory_stays_until_the_last_event() {
        let bytes: Arc<[u8]> = Arc::from(&b"bytes"[..]);
        let mut slots = Slots::default();
        let key = slots.insert_once(Owned::Shared(Arc::clone(&bytes)));
        assert!(slots.take(key, Waker::noop()).is_none());
        assert!(slots.abandon(key, None).is_none(), "under way: the slot keeps the memory");
        assert_eq!(Arc::strong_count(&bytes), 2);
        let ended = slots.finish(key, done(-125));
        assert!(
            matches!(ended, Some(Err(Left { owned: Owned::Shared(_), .. }))),
            "the memory comes out with the last event"
        );
        drop(ended);
        assert_eq!(Arc::strong_count(&bytes), 1);
        assert!(slots.finish(key, done(0)).is_none(), "a key is good for one operation");
    }

    #[test]
    fn a_done_operation_gives_its_memory_back() {
        let mut slots = Slots::default();
        let key = slots.insert_once(Owned::Vec(vec![1, 2, 3]));
        assert!(slots.take(key, Waker::noop()).is_none());
        assert!(matches!(slots.finish(key, done(3)), Some(Ok(Some(_)))), "the waker comes out");
        let Some((Owned::Vec(bytes), end)) = slots.take(key, Waker::noop()) else { panic!("it is done") };
        assert_eq!((bytes, end.event.result), (vec![1, 2, 3], 3));
        let again = slots.take(key, Waker::noop()).expect("a key that has ended waits for nothing");
        assert!(again.1.event.result < 0);
    }

    #[test]
    fn keys_are_not_used_twice() {
        let mut slots = Slots::default();
        let mut keys = std::collections::HashSet::new();
        for _ in 0..1000 {
            let key = slots.insert_once(Owned::None);
            assert!(key != 0 && keys.insert(key), "{key} came before");
            slots.finish(key, done(0));
            assert!(slots.abandon(key, None).is_some());
        }
        assert_eq!(slots.slots.len(), 1, "slots are used again");
    }

    #[test]
    fn what_never_ended_is_leaked() {
        let held: Arc<[u8]> = Arc::from(&b"held"[..]);
        for (drained, left) in [(true, 1), (false, 2)] {
            let mut slots = Slots::default();
            slots.insert_once(Owned::Shared(Arc::clone(&held)));
            slots.end(drained);
            assert_eq!(Arc::strong_count(&held), left);
        }
        // SAFETY: the loop leaked exactly one reference of this Arc, which is given up here.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(&held)) };
    }

    #[test]
    fn made_up_keys_do_nothing() {
        let mut slots = Slots::default();
        let key = slots.insert_once(Owned::None);
        for wrong in [0, u64::MAX, key + 1, key + (1 << 32), super::super::core::IGNORE] {
            assert!(slots.finish(wrong, done(0)).is_none());
            assert!(slots.sink(wrong).is_none());
            slots.remove(wrong);
        }
        assert!(slots.finish(key, done(0)).is_some());
    }
}
