// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures are dropped at random points, as `select!` drops them, and every byte is accounted for: what was received waits for
//! the next call, and of what was sent the stream tells how far it came.

mod common;

use common::{on_each_driver, pattern, run, TempDir};
use quoit::net::{Listener, Stream};
use quoit::{rt, time, Addr, Error, Result};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::net::Shutdown;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Numbers that a seed repeats.
struct Random(Cell<u64>);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn below(&self, limit: u64) -> u64 {
        let mut word = self.0.get();
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.0.set(word);
        (word >> 11) % limit
    }
}

/// Goes through the worker up to so many times, or without end, for the future to be done; then drops it.
async fn drop_after<F: Future>(turns: Option<u64>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let Some(turns) = turns else { return Some(future.await) };
    for turn in 0..=turns {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(value) = polled {
            return Some(value);
        }
        if turn < turns {
            rt::nop().await.expect("the worker turns");
        }
    }
    None
}

/// When to drop a future: mostly soon, now and then never.
fn turns(random: &Random) -> Option<u64> {
    match random.below(8) {
        0 => None,
        _ => Some(random.below(4)),
    }
}

#[derive(Default)]
struct Tally {
    /// Dropped sends of which nothing, a part, and all went.
    none: u64,
    part: u64,
    all: u64,
    reads_dropped: u64,
}

/// Sends the bytes in pieces, each from where the last one is told to have ended.
async fn write(stream: &Stream, bytes: &[u8], random: &Random, tally: &RefCell<Tally>) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        let largest = if random.below(4) == 0 { 4 << 20 } else { 20_000 };
        let piece = &bytes[at..bytes.len().min(at + 1 + random.below(largest) as usize)];
        let sent = if random.below(3) == 0 {
            let middle = random.below(piece.len() as u64) as usize;
            let pieces = vec![piece[..middle].to_vec(), piece[middle..].to_vec()];
            drop_after(turns(random), stream.send_many(pieces)).await.map(|end| end.0)
        } else {
            drop_after(turns(random), stream.send(piece.to_vec())).await.map(|end| end.0)
        };
        if let Some(sent) = sent {
            assert_eq!(sent?, piece.len(), "a send that is done sent all");
            at += piece.len();
            continue;
        }
        // The answer may be dropped too, and asked for again.
        let dropped = loop {
            if let Some(dropped) = drop_after(turns(random), stream.settle()).await {
                break dropped?;
            }
        };
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].len, piece.len());
        let mut tally = tally.borrow_mut();
        match dropped[0].sent {
            0 => tally.none += 1,
            sent if sent < piece.len() => tally.part += 1,
            _ => tally.all += 1,
        }
        at += dropped[0].sent;
    }
    stream.shutdown(Shutdown::Write).await
}

/// Receives to the end in every way there is.
async fn read(stream: &Stream, random: &Random, tally: &RefCell<Tally>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let ended = match random.below(3) {
            0 => drop_after(turns(random), stream.recv()).await.transpose()?.map(|lease| {
                bytes.extend_from_slice(lease.as_deref().unwrap_or_default());
                lease.is_none()
            }),
            1 => {
                let mut piece = vec![0; 1 + random.below(50_000) as usize];
                drop_after(turns(random), stream.read(&mut piece)).await.transpose()?.map(|count| {
                    bytes.extend_from_slice(&piece[..count]);
                    count == 0
                })
            }
            _ => {
                let len = bytes.len() + 1 + random.below(50_000) as usize;
                let read = stream.read_until_len(&mut bytes, len);
                drop_after(turns(random), read).await.transpose()?.map(|there| !there)
            }
        };
        match ended {
            Some(true) => return Ok(bytes),
            Some(false) => {}
            None => tally.borrow_mut().reads_dropped += 1,
        }
    }
}

async fn pair(addr: &Addr) -> Result<(Stream, Stream)> {
    let listener = Listener::bind(*addr).await?;
    let near = Stream::connect(listener.local_addr()?).await?;
    Ok((near, listener.accept().await?))
}

/// Both directions of a connection, with drops; gives how they went.
async fn exchange(addr: Addr, seed: u64, size: usize) -> Result<Tally> {
    let (near, far) = pair(&addr).await?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    let ends = [Rc::new(near), Rc::new(far)];
    let mut tasks = Vec::new();
    for side in 0..2 {
        let (writer, reader) = (Rc::clone(&ends[side]), Rc::clone(&ends[1 - side]));
        let (sent, received) = (Rc::clone(&tally), Rc::clone(&tally));
        let seed = seed * 4 + side as u64 * 2;
        let bytes = pattern(seed, size);
        let expected = bytes.clone();
        tasks.push(rt::spawn(async move { write(&writer, &bytes, &Random::new(seed), &sent).await }));
        tasks.push(rt::spawn(async move {
            let bytes = read(&reader, &Random::new(seed + 1), &received).await?;
            assert_eq!(bytes.len(), expected.len(), "seed {seed}: bytes were lost or doubled");
            assert!(bytes == expected, "seed {seed}: bytes changed");
            Ok(())
        }));
    }
    for task in tasks {
        match task.await {
            Ok(end) => end?,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    Ok(tally.take())
}

fn exchanges(addr: impl Fn(u64) -> Addr) {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(time::timeout(Duration::from_secs(100), async {
            let mut all = Tally::default();
            for seed in 1..=4 {
                let tally = exchange(addr(seed), seed, 8 << 20).await?;
                all.none += tally.none;
                all.part += tally.part;
                all.all += tally.all;
                all.reads_dropped += tally.reads_dropped;
            }
            Result::Ok(all)
        }));
        let all = outcome.expect("the executor runs").expect("it ends in time").expect("no error");
        println!(
            "dropped sends: {} none, {} part, {} all; reads: {}",
            all.none, all.part, all.all, all.reads_dropped
        );
        assert!(all.none + all.part + all.all > 20 && all.reads_dropped > 20, "hardly anything was dropped");
    });
}

#[test]
fn every_byte_over_tcp() {
    exchanges(|_| "127.0.0.1:0".parse().expect("an address"));
}

#[test]
fn every_byte_over_unix_sockets() {
    let folder = TempDir::new("select");
    let count = Cell::new(0);
    exchanges(|_| {
        count.set(count.get() + 1);
        Addr::unix(folder.0.join(count.get().to_string())).expect("an address")
    });
}

#[test]
fn a_send_that_is_stuck_tells_its_part() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const SIZE: usize = 32 << 20;
            let (near, far) = pair(&"127.0.0.1:0".parse()?).await?;
            let bytes = pattern(1, SIZE);
            // Two at once, of which only the first can have begun.
            let (first, second) = (near.send(bytes.clone()), near.send("never"));
            assert!(drop_after(Some(10), first).await.is_none(), "nobody reads");
            drop(second);
            assert_eq!(near.send("too early").await, (Err(Error::BUSY), ()));
            let (refused, back) = near.send(vec![1, 2, 3]).await;
            assert_eq!((refused, back), (Err(Error::BUSY), vec![1, 2, 3]), "the memory comes back");
            let dropped = near.settle().await?;
            assert_eq!((dropped.len(), dropped[0].len, dropped[1].len), (2, SIZE, 5));
            let (sent, after) = (dropped[0].sent, dropped[1].sent);
            assert!(sent > 0 && sent < SIZE, "{sent} bytes of {SIZE} went");
            // The stream goes on from there.
            let tail = rt::spawn(async move {
                near.send("the end").await.0?;
                near.shutdown(Shutdown::Write).await
            });
            let mut expected = bytes[..sent].to_vec();
            expected.extend_from_slice(&b"never"[..after]);
            expected.extend_from_slice(b"the end");
            let mut back = Vec::new();
            assert!(!far.read_until_len(&mut back, usize::MAX).await?, "the end comes");
            assert_eq!(back.len(), expected.len());
            assert!(back == expected, "bytes changed");
            tail.await?
        });
    });
}
