// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters, the probe, the log, the driver that ran.

mod common;

use common::on_each_driver;
use quoit::{probe, rt, time, Driver, Error, ProbeState, Result, Runtime};
use std::time::Duration;

#[test]
fn counters_count() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        executor
            .block_on(async {
                for _ in 0..100 {
                    rt::nop().await?;
                }
                time::sleep(Duration::from_millis(2)).await
            })
            .expect("the executor runs")
            .expect("no error");
        let stats = executor.stats().expect("counters");
        assert_eq!(stats.driver(), runtime.driver());
        assert!(stats.ticks >= 100 && stats.ops >= 101 && stats.events >= 101 && stats.timers_fired >= 1);
        // One crossing per tick: the await of an operation costs no other.
        assert_eq!(stats.crossings, stats.ticks);
        assert!(!runtime.driver_reason().is_empty());
        let json = stats.to_json();
        for name in ["ticks", "system_calls", "crossings", "recv_nobufs", "sends_partial", "tick_ns_hist"] {
            assert!(json.contains(&format!("\"{name}\":")), "{json}");
        }
        assert_eq!(
            stats.counters().iter().find(|entry| entry.0 == "ticks").map(|entry| entry.1),
            Some(stats.ticks)
        );
    });
}

#[test]
fn the_probe_says_what_was_tried() {
    let entries = probe().expect("the probe runs");
    assert!(entries.len() >= 3, "only {} entries", entries.len());
    for entry in &entries {
        assert!(!entry.name.is_empty() && !entry.reason.is_empty(), "{entry:?}");
        assert!(entry.state != ProbeState::Refused || !entry.fix.is_empty(), "{entry:?}");
    }
    assert!(!quoit::version().is_empty());
}

#[test]
fn drivers_have_names() {
    for name in ["auto", "uring", "uring-defer", "uring-coop", "uring-plain", "epoll"] {
        assert_eq!(name.parse::<Driver>().expect("a driver").to_string(), name);
    }
    assert_eq!("kqueue".parse::<Driver>(), Err(Error::ARGUMENT));
}

#[test]
fn wrong_options_are_refused() {
    let runtime = Runtime::new().expect("a runtime");
    let odd = runtime.worker().recv_buffers(17).build().map(|_| ());
    assert!(odd.is_err(), "17 is no power of two");
    assert!(runtime.worker().events_max(1 << 20).build().is_err());
    while let Some(line) = runtime.read_log() {
        assert!(!line.is_empty());
    }
    assert_eq!(Result::Ok(()), Ok(()));
}
