// SPDX-License-Identifier: MIT OR Apache-2.0
//! Torture from Rust: dropped futures, time limits, aborted tasks, the peer's ends and resets against the async API.
//!
//! What became of a future is told by how it ended: before - the cut had its way, nothing had come about; during - it was cut in the
//! middle, or was done although the cut had been asked for, or what it waited for is there for the next one; after - it had ended
//! before. Every byte, stream, datagram, descriptor and buffer is accounted for. Prints one JSON object; a seed repeats the choices
//! of a run: `quoit-torture --driver epoll --count 5000 --seed 7`.

mod lane;
mod ledger;
mod peers;
mod post;
mod trial;

use ledger::{add, fault, Random, Totals, SEED, WORLD};
use quoit::rt::{self, Executor};
use quoit::{Driver, Runtime};
use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PER_WORLD: u64 = 2500;
const LEFT: [&str; 4] = ["fds_left", "buffers_left", "objects_left", "ops_left"];
/// How long what is closing at the end of a world may take.
const END: Duration = Duration::from_secs(20);

/// A worker with random options, and its lanes.
pub struct World {
    number: u64,
    folder: String,
    pub random: Random,
    pub totals: Rc<Totals>,
    end: u64,
    seeds: Cell<u64>,
}

impl World {
    pub fn over(&self) -> bool {
        self.totals.interleavings.get() >= self.end
    }

    pub fn next_seed(&self) -> u64 {
        self.seeds.set(self.seeds.get() + 2);
        self.seeds.get()
    }

    /// A Unix path, or a loopback address that no other lane has: nobody else binds a port that was closed there.
    pub fn addr(&self, unix: bool, lane: usize, what: &str) -> String {
        if unix {
            return format!("unix:{}/{}-{lane}-{what}", self.folder, self.number);
        }
        let pid = std::process::id();
        format!("127.{}.{}.{}:0", 1 + lane, pid >> 8 & 255, pid & 255)
    }
}

fn executor(runtime: &Runtime, random: &Random) -> Executor {
    let worker = runtime
        .worker()
        .events_max(random.of(&[1, 3, 16, 64, 256, 256]))
        .ops_max(random.of(&[16, 64, 256]))
        .recv_buffers(random.of(&[16, 64, 256]))
        .recv_buffer_size(random.of(&[256, 2048, 2048, 16_384]))
        .scratch_len(random.of(&[4096, 65_536, 1 << 20]))
        .ring_entries(random.of(&[0, 16, 64]));
    worker.executor().unwrap_or_else(|error| fault(&format!("a worker: {error}")))
}

/// Buffers, objects and ops that are there, as the worker counts them.
fn alive(executor: &Executor) -> [u64; 3] {
    let stats = executor.stats().unwrap_or_else(|error| fault(&format!("stats: {error}")));
    let buffers = stats.buffers_total - stats.buffers_free + stats.leaked + stats.buffers_kept;
    [buffers, stats.objects_live, stats.ops_live]
}

async fn lanes(world: Rc<World>) {
    let count = world.random.of(&[4, 12, 24]);
    let tasks: Vec<_> = (0..count)
        .map(|number| match world.random.below(3) {
            0 => rt::spawn(post::Post::new(number, &world).run()),
            _ => rt::spawn(lane::Lane::new(number, &world).run()),
        })
        .collect();
    for task in tasks {
        if let Err(error) = task.await {
            fault(&format!("a lane: {error}"));
        }
    }
}

fn run_world(driver: Driver, world: &Rc<World>) {
    let fds = peers::open_fds();
    let runtime = Runtime::builder()
        .driver(driver)
        .build()
        .unwrap_or_else(|error| fault(&format!("{driver}: {error}")));
    let mut executor = executor(&runtime, &world.random);
    let run = |executor: &mut Executor, turns: u32| {
        let turned = executor.block_on(async move {
            for _ in 0..turns {
                rt::nop().await.ok();
            }
        });
        turned.unwrap_or_else(|error| fault(&format!("the worker ended: {error}")));
    };
    run(&mut executor, 3);
    let before = alive(&executor);
    executor
        .block_on(lanes(Rc::clone(world)))
        .unwrap_or_else(|error| fault(&format!("the worker ended: {error}")));
    let began = Instant::now();
    let mut left = [0; 3];
    loop {
        run(&mut executor, 20);
        for (at, count) in alive(&executor).into_iter().enumerate() {
            left[at] = count.saturating_sub(before[at]);
        }
        if left == [0; 3] || began.elapsed() > END {
            break;
        }
    }
    executor.shutdown(Duration::ZERO);
    drop(runtime);
    add(&world.totals.left[0], peers::open_fds().saturating_sub(fds));
    for (at, count) in left.into_iter().enumerate() {
        add(&world.totals.left[at + 1], count);
    }
}

/// The object that is printed; true if nothing is wrong.
fn report(totals: &Totals, driver: Driver, seed: u64, worlds: u64, began: Instant) -> bool {
    let mut sums = [0; 3];
    let mut by = Vec::new();
    for ((subject, cut), counts) in &*totals.outcomes.borrow() {
        by.push(format!("\"{subject} by {cut}\":{counts:?}"));
        for at in 0..3 {
            sums[at] += counts[at];
        }
    }
    let numbers = [
        ("before", sums[0]),
        ("during", sums[1]),
        ("after", sums[2]),
        ("seed", seed),
        ("worlds", worlds),
        ("interleavings", totals.interleavings.get()),
        ("connections", totals.connections.get()),
        ("accepted", totals.accepted.get()),
        ("bytes_sent", totals.bytes_sent.get()),
        ("bytes_received", totals.bytes_received.get()),
        ("datagrams_sent", totals.datagrams_sent.get()),
        ("datagrams_arrived", totals.datagrams_arrived.get()),
    ];
    let mut wrong =
        vec![("lost", totals.lost.get()), ("doubled", totals.doubled.get()), ("wrong", totals.wrong.get())];
    wrong.extend(LEFT.iter().zip(&totals.left).map(|(name, count)| (*name, count.get())));
    let fields: Vec<String> =
        numbers.iter().chain(&wrong).map(|(name, value)| format!("\"{name}\":{value}")).collect();
    println!(
        "{{\"language\":\"rust\",\"driver_ran\":\"{driver}\",\"by\":{{{}}},{},\"seconds\":{:.1}}}",
        by.join(","),
        fields.join(","),
        began.elapsed().as_secs_f64()
    );
    wrong.iter().all(|(_, value)| *value == 0)
}

fn main() -> ExitCode {
    let (mut driver, mut count, mut seed, mut only, mut progress) = (Driver::Auto, 5000, 1, None, false);
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        if name == "--progress" {
            progress = true;
            continue;
        }
        let value = args.next().unwrap_or_default();
        let number = value.parse();
        match (name.as_str(), number) {
            ("--driver", _) if value.parse::<Driver>().is_ok() => driver = value.parse().unwrap_or(driver),
            ("--count", Ok(number)) => count = number,
            ("--seed", Ok(number)) => seed = number,
            ("--world", Ok(number)) => only = Some(number),
            _ => {
                eprintln!(
                    "usage: quoit-torture [--driver NAME] [--count N] [--seed N] [--world N] [--progress]"
                );
                return ExitCode::from(2);
            }
        }
    }
    SEED.store(seed, Ordering::Relaxed);
    let driver = match Runtime::builder().driver(driver).build() {
        Ok(runtime) => runtime.driver(),
        Err(error) => fault(&format!("{driver}: {error}: {}", error.hint())),
    };
    let folder = std::env::temp_dir().join(format!("quoit-torture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap_or_else(|_| fault("a folder for Unix sockets"));
    let (totals, began, mut said) = (Rc::new(Totals::default()), Instant::now(), Instant::now());
    let mut number = only.unwrap_or(0);
    while totals.interleavings.get() < count {
        WORLD.store(number, Ordering::Relaxed);
        let done = totals.interleavings.get();
        let world = World {
            number,
            folder: folder.display().to_string(),
            random: Random::new(seed * 1_000_003 + number),
            totals: Rc::clone(&totals),
            end: done + PER_WORLD.min(count - done),
            seeds: Cell::new((seed << 40) + (number << 20)),
        };
        run_world(driver, &Rc::new(world));
        number += 1;
        if progress && said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            eprintln!("torture rust {driver}: {} of {count}", totals.interleavings.get());
        }
        if only.is_some() {
            break;
        }
    }
    std::fs::remove_dir_all(&folder).ok();
    ExitCode::from(u8::from(!report(&totals, driver, seed, number, began)))
}
