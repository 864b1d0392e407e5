// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of a channel: it carries their keys, and each value has one owner from the send to its end.

use super::lock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::task::Waker;

/// What the two ends of a channel share, on whichever workers they are.
pub(super) struct Values<T> {
    table: Mutex<Table<T>>,
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
}

struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    receiver: Option<Waker>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
    /// Its send has ended well: it is the channel's.
    inside: bool,
}

impl<T> Table<T> {
    fn at(&mut self, key: u64) -> Option<&mut Slot<T>> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        (slot.generation == (key >> 32) as u32).then_some(slot)
    }

    fn take(&mut self, key: u64) -> Option<T> {
        let slot = self.at(key)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.inside = false;
        self.free.push(key as u32);
        Some(value)
    }
}

impl<T> Values<T> {
    /// Of a channel with one sender.
    pub(super) fn new() -> Values<T> {
        let table = Table { slots: Vec::new(), free: Vec::new(), receiver: None };
        Values {
            table: Mutex::new(table),
            senders: AtomicUsize::new(1),
            receiver_gone: AtomicBool::new(false),
        }
    }

    /// A value that is about to be sent; gives its key.
    pub(super) fn insert(&self, value: T) -> u64 {
        let mut table = lock(&self.table);
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot { generation: 0, value: None, inside: false });
            (table.slots.len() - 1) as u32
        });
        let slot = &mut table.slots[index as usize];
        slot.value = Some(value);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// The value of a key, if nobody has taken it.
    pub(super) fn take(&self, key: u64) -> Option<T> {
        lock(&self.table).take(key)
    }

    /// Its send has ended well. The receiver may have taken it by now, or have gone: then it comes back, to be dropped.
    pub(super) fn entered(&self, key: u64) -> Option<T> {
        let mut table = lock(&self.table);
        if self.receiver_gone.load(Ordering::SeqCst) {
            return table.take(key);
        }
        if let Some(slot) = table.at(key) {
            slot.inside = slot.value.is_some();
        }
        None
    }

    pub(super) fn add_sender(&self) {
        self.senders.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn remove_sender(&self) {
        if self.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            let receiver = lock(&self.table).receiver.take();
            receiver.into_iter().for_each(Waker::wake);
        }
    }

    /// True if all senders are gone; else the last to go wakes this.
    pub(super) fn watch_senders(&self, waker: &Waker) -> bool {
        let mut table = lock(&self.table);
        match &mut table.receiver {
            Some(known) => known.clone_from(waker),
            None => table.receiver = Some(waker.clone()),
        }
        drop(table);
        self.senders.load(Ordering::SeqCst) == 0
    }

    pub(super) fn receiver_is_gone(&self) -> bool {
        self.receiver_gone.load(Ordering::SeqCst)
    }

    /// The receiver is gone: what is inside comes back, to be dropped. What is being sent is its send's.
    pub(super) fn remove_receiver(&self) -> Vec<T> {
        let mut table = lock(&self.table);
        self.receiver_gone.store(true, Ordering::SeqCst);
        let inside = |(index, slot): (usize, &Slot<T>)| {
            slot.inside.then_some(u64::from(slot.generation) << 32 | index as u64)
        };
        let keys: Vec<u64> = table.slots.iter().enumerate().filter_map(inside).collect();
        keys.into_iter().filter_map(|key| table.take(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_value_has_one_owner() {
        let held = Arc::new(());
        let values = Values::new();
        let keys: Vec<u64> = (0..3).map(|_| values.insert(Arc::clone(&held))).collect();
        assert!(values.entered(keys[0]).is_none() && values.entered(keys[1]).is_none());
        assert!(values.take(keys[0]).is_some() && values.take(keys[0]).is_none(), "taken once");
        assert!(values.entered(keys[0]).is_none(), "its end is told after it was taken");
        let again = values.insert(Arc::clone(&held));
        assert!(again != keys[0] && again as u32 == keys[0] as u32, "slots are used again, keys are not");
        assert_eq!(values.remove_receiver().len(), 1, "what is inside");
        assert_eq!(Arc::strong_count(&held), 3, "what is being sent is still there");
        assert!(values.take(keys[2]).is_some(), "a send that failed has it back");
        assert!(values.entered(again).is_some(), "one that entered a dead channel too late");
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
