// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's counters, and what this machine lets quoit use.

use crate::error::{check, Result};
use crate::handle::Handle;
use crate::runtime::Driver;
use quoit_sys as sys;
use std::ffi::{c_char, CStr};
use std::ops::Deref;
use std::ptr::null_mut;

/// A snapshot of a worker's counters. Each is a public field of the C struct, reached by dereference: `stats.ticks`.
#[derive(Debug, Clone, Copy)]
pub struct Stats {
    raw: sys::quoit_stats,
}

macro_rules! counters {
    ($($name:ident)*) => {
        impl Stats {
            /// Every counter with its name, in the order of the C struct, but for the histogram.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.raw.$name)),*]
            }
        }
    };
}

counters! {
    ticks system_calls crossings ops events bytes_received bytes_sent accepts connects park_ns parks sends sends_partial
    sends_gathered recv_nobufs recv_rearms recv_paused cq_overflows accept_stalls handed_over posts_in posts_refused wakes
    offloads timers_fired objects_live ops_live buffers_total buffers_free buffers_kept send_bytes_queued leaked
    zerocopy_sends zerocopy_copied zerocopy_refused
}

impl Stats {
    pub(crate) fn read(worker: Handle) -> Result<Stats> {
        let struct_size = size_of::<sys::quoit_stats>() as u32;
        let mut raw = sys::quoit_stats { struct_size, ..Default::default() };
        // SAFETY: any handle may be asked for on any thread; raw is a writable struct of the size that it names.
        check(unsafe { sys::quoit_stats_read(worker.raw(), &mut raw) })?;
        Ok(Stats { raw })
    }

    /// The driver that the worker runs on.
    pub fn driver(&self) -> Driver {
        Driver::from_number(self.raw.driver)
    }

    /// One JSON object with every counter and the histogram.
    pub fn to_json(&self) -> String {
        let mut fields: Vec<String> =
            self.counters().iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let buckets: Vec<String> = self.raw.tick_ns_hist.iter().map(u64::to_string).collect();
        fields.push(format!("\"tick_ns_hist\":[{}]", buckets.join(",")));
        format!("{{{}}}", fields.join(","))
    }
}

impl Deref for Stats {
    type Target = sys::quoit_stats;

    fn deref(&self) -> &sys::quoit_stats {
        &self.raw
    }
}

/// What became of a thing that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ProbeState {
    Used,
    Refused,
    Unused,
    Fact,
}

/// One thing that [`probe`] tried.
#[derive(Debug, Clone)]
pub struct Probe {
    /// What became of it.
    pub state: ProbeState,
    /// 0, or the `-errno` with which the kernel refused.
    pub status: i32,
    /// A number that belongs to it, if any.
    pub number: u64,
    /// Such as `"io_uring_setup"`.
    pub name: String,
    /// What was found.
    pub reason: String,
    /// How to change it; empty where there is nothing to fix.
    pub fix: String,
}

/// Tries each feature for real and says what this machine lets quoit use, and why not where it does not. Takes a few ms.
pub fn probe() -> Result<Vec<Probe>> {
    // SAFETY: entries may be null when the capacity is 0.
    let known = check(unsafe { sys::quoit_probe(null_mut(), 0) })?;
    let empty = sys::quoit_probe_entry {
        state: 0,
        status: 0,
        number: 0,
        name: [0; 48],
        reason: [0; 256],
        fix: [0; 256],
    };
    let mut entries = vec![empty; known as usize + 8];
    // SAFETY: entries is that many writable structs.
    let filled = check(unsafe { sys::quoit_probe(entries.as_mut_ptr(), entries.len() as u32) })?;
    entries.truncate(filled as usize);
    Ok(entries.iter().map(read_probe).collect())
}

fn read_probe(entry: &sys::quoit_probe_entry) -> Probe {
    Probe {
        state: match entry.state {
            sys::QUOIT_PROBE_USED => ProbeState::Used,
            sys::QUOIT_PROBE_REFUSED => ProbeState::Refused,
            sys::QUOIT_PROBE_UNUSED => ProbeState::Unused,
            _ => ProbeState::Fact,
        },
        status: entry.status,
        number: entry.number,
        name: text(&entry.name),
        reason: text(&entry.reason),
        fix: text(&entry.fix),
    }
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
