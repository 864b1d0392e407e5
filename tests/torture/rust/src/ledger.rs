// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was sent, what its sender was told, and what arrived: of streams to the byte, of datagrams to the datagram.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub static SEED: AtomicU64 = AtomicU64::new(1);
pub static WORLD: AtomicU64 = AtomicU64::new(0);

/// A rule was broken: the run ends.
pub fn fault(what: &str) -> ! {
    let (seed, world) = (SEED.load(Ordering::Relaxed), WORLD.load(Ordering::Relaxed));
    eprintln!("torture: {what}\ntorture: again with --seed {seed} --world {world}");
    std::process::exit(1);
}

/// Numbers that a seed repeats.
pub struct Random(Cell<u64>);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Cell::new(mix(seed) | 1))
    }

    pub fn below(&self, limit: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(self.0.get()) % limit
    }

    pub fn of<T: Copy>(&self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// True once in so many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, at: u64, len: usize) -> Vec<u8> {
    let seed = mix(seed);
    let mut bytes = Vec::with_capacity(len + 16);
    let mut word = at / 8;
    while bytes.len() < len + 8 {
        bytes.extend_from_slice(&mix(seed.wrapping_add(word)).to_le_bytes());
        word += 1;
    }
    bytes.drain(..(at % 8) as usize);
    bytes.truncate(len);
    bytes
}

#[derive(Default)]
pub struct Totals {
    pub outcomes: RefCell<BTreeMap<(&'static str, &'static str), [u64; 3]>>,
    pub interleavings: Cell<u64>,
    pub connections: Cell<u64>,
    pub accepted: Cell<u64>,
    pub bytes_sent: Cell<u64>,
    pub bytes_received: Cell<u64>,
    pub datagrams_sent: Cell<u64>,
    pub datagrams_arrived: Cell<u64>,
    pub lost: Cell<u64>,
    pub doubled: Cell<u64>,
    pub wrong: Cell<u64>,
    pub left: [Cell<u64>; 4],
}

pub fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get() + count);
}

/// One direction of a stream. Who was told that a part of a send had left goes on behind that part.
pub struct Flow {
    seed: u64,
    pub sent: u64,
    pub arrived: u64,
}

impl Flow {
    pub fn new(seed: u64) -> Flow {
        Flow { seed, sent: 0, arrived: 0 }
    }

    /// The next bytes that are to be sent.
    pub fn next(&self, len: usize) -> Vec<u8> {
        pattern(self.seed, self.sent, len)
    }

    pub fn came(&mut self, bytes: &[u8], totals: &Totals) {
        if pattern(self.seed, self.arrived, bytes.len()) != bytes {
            self.misplaced(bytes, totals);
        }
        self.arrived += bytes.len() as u64;
    }

    /// Are they from before, or from behind a gap?
    fn misplaced(&mut self, bytes: &[u8], totals: &Totals) {
        let probe = &bytes[..bytes.len().min(16)];
        for off in 1..65_536 {
            if off <= self.arrived && pattern(self.seed, self.arrived - off, probe.len()) == probe {
                add(&totals.doubled, off);
                self.arrived -= off;
                return;
            }
            if pattern(self.seed, self.arrived + off, probe.len()) == probe {
                add(&totals.lost, off);
                self.arrived += off;
                return;
            }
        }
        add(&totals.wrong, bytes.len() as u64);
    }

    /// Both ends are gone; whole: nothing may be missing.
    pub fn close(&self, whole: bool, totals: &Totals) {
        if whole {
            add(&totals.lost, self.sent.saturating_sub(self.arrived));
            add(&totals.doubled, self.arrived.saturating_sub(self.sent));
        }
    }
}

/// Whether a datagram has left, as far as its sender knows.
#[derive(Clone, Copy, PartialEq)]
pub enum Left {
    Asked,
    /// Its future was dropped: at most once it may arrive.
    Maybe,
    Yes,
}

struct Entry {
    len: usize,
    left: Left,
    arrived: bool,
}

/// Datagrams one way. Each but an empty one has its number and a hash in front; no order is asked for.
pub struct Tally {
    seed: u64,
    next: u64,
    open: BTreeMap<u64, Entry>,
}

pub const HEAD: usize = 24;

impl Tally {
    pub fn new(seed: u64) -> Tally {
        Tally { seed, next: 0, open: BTreeMap::new() }
    }

    fn bytes(&self, number: u64, len: usize) -> Vec<u8> {
        if len == 0 {
            return Vec::new();
        }
        let hash = mix(self.seed ^ mix(number) ^ len as u64);
        let mut bytes: Vec<u8> =
            [number, len as u64, hash].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(pattern(self.seed + number, 0, len - HEAD));
        bytes
    }

    /// Another one, of so many bytes if that has room for its head, else an empty one.
    pub fn make(&mut self, len: usize) -> (u64, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        let len = if len < HEAD { 0 } else { len };
        self.open.insert(number, Entry { len, left: Left::Asked, arrived: false });
        (number, self.bytes(number, len))
    }

    pub fn left(&mut self, number: u64, left: Left, totals: &Totals) {
        let Some(entry) = self.open.get_mut(&number) else { return add(&totals.doubled, 1) };
        entry.left = left;
        add(&totals.datagrams_sent, u64::from(left == Left::Yes));
        if entry.arrived {
            self.open.remove(&number);
        }
    }

    /// It never leaves: it was refused.
    pub fn refused(&mut self, number: u64, totals: &Totals) {
        let arrived = self.open.remove(&number).is_none_or(|entry| entry.arrived);
        add(&totals.doubled, u64::from(arrived));
    }

    /// Bytes of a datagram that was `whole` bytes long.
    pub fn came(&mut self, bytes: &[u8], whole: usize, totals: &Totals) {
        let number = if bytes.is_empty() {
            self.open
                .iter()
                .find(|(_, entry)| entry.len == 0 && !entry.arrived)
                .map_or(u64::MAX, |found| *found.0)
        } else {
            let number = bytes.first_chunk().map_or(u64::MAX, |head| u64::from_le_bytes(*head));
            if bytes.len() < HEAD || number >= self.next || !self.bytes(number, whole).starts_with(bytes) {
                return add(&totals.wrong, 1);
            }
            number
        };
        match self.open.get_mut(&number) {
            Some(entry) if !entry.arrived => {
                add(&totals.datagrams_arrived, 1);
                entry.arrived = true;
                if entry.left != Left::Asked {
                    self.open.remove(&number);
                }
            }
            _ => add(&totals.doubled, 1), // it came twice
        }
    }

    pub fn has_arrived(&self, number: u64) -> bool {
        self.open.get(&number).is_none_or(|entry| entry.arrived)
    }

    /// Nothing that has left is missing.
    pub fn is_whole(&self) -> bool {
        self.open.values().all(|entry| entry.left == Left::Maybe)
    }

    /// At most so much kernel memory is taken by those on their way.
    pub fn cost(&self) -> usize {
        self.open
            .values()
            .filter(|entry| !entry.arrived && entry.left != Left::Maybe)
            .map(|entry| cost_of(entry.len))
            .sum()
    }

    pub fn close(&self, whole: bool, totals: &Totals) {
        for entry in self.open.values() {
            add(&totals.lost, u64::from(whole && entry.left == Left::Yes));
        }
    }
}

pub fn cost_of(len: usize) -> usize {
    2 * len + 2048
}
