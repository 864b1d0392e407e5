// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures that wait in line for something that only one of them gets.

use std::collections::VecDeque;
use std::task::Waker;

/// First come, first served. What is granted belongs to one waiter, which takes it when it is polled or, when it is dropped
/// before, hands it on.
#[derive(Default)]
pub(super) struct Waiters {
    next: u64,
    line: VecDeque<(u64, Waker)>,
    granted: Vec<u64>,
}

impl Waiters {
    /// Puts a future in line, or notes its new waker where it stands.
    pub(super) fn wait(&mut self, place: &mut Option<u64>, waker: &Waker) {
        let known = place.and_then(|place| self.line.iter_mut().find(|entry| entry.0 == place));
        if let Some(entry) = known {
            entry.1.clone_from(waker);
            return;
        }
        self.next += 1;
        *place = Some(self.next);
        self.line.push_back((self.next, waker.clone()));
    }

    /// Grants to the first in line; gives whom to wake, none if nobody waits.
    pub(super) fn grant(&mut self) -> Option<Waker> {
        let (place, waker) = self.line.pop_front()?;
        self.granted.push(place);
        Some(waker)
    }

    /// Takes what was granted to this place, if it was.
    pub(super) fn take(&mut self, place: Option<u64>) -> bool {
        let found = self.granted.iter().position(|granted| Some(*granted) == place);
        found.map(|index| self.granted.swap_remove(index)).is_some()
    }

    /// Leaves the line. True if something was granted, which the caller must hand on.
    pub(super) fn leave(&mut self, place: Option<u64>) -> bool {
        if self.take(place) {
            return true;
        }
        if let Some(index) = self.line.iter().position(|entry| Some(entry.0) == place) {
            self.line.remove(index);
        }
        false
    }

    /// Takes all out of the line, to be woken; what was granted stays granted.
    pub(super) fn clear(&mut self) -> Vec<Waker> {
        self.line.drain(..).map(|entry| entry.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let mut waiters = Waiters::default();
        let (mut first, mut second, mut third) = (None, None, None);
        for place in [&mut first, &mut second, &mut third] {
            waiters.wait(place, Waker::noop());
        }
        waiters.wait(&mut first, Waker::noop());
        assert!(!waiters.leave(second), "nothing was granted yet");
        assert!(waiters.grant().is_some());
        assert!(waiters.take(first) && !waiters.take(first), "taken once");
        assert!(waiters.grant().is_some());
        assert!(waiters.leave(third), "it must be handed on");
        assert!(waiters.grant().is_none(), "nobody is left");
    }
}
