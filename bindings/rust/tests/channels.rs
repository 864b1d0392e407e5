// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels between workers: order, room, ends, and that each value is dropped once.

mod common;

use common::{on_each_driver, poll_once, run, with_other, Other};
use quoit::sync::channel::{self, Receiver, SendError};
use quoit::{rt, spawn, spawn_on, Error, Result};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Counts how many were made and how many dropped.
#[derive(Default)]
struct Ledger {
    made: AtomicU64,
    dropped: AtomicU64,
}

struct Value {
    number: u64,
    ledger: Arc<Ledger>,
}

impl Ledger {
    fn value(self: &Arc<Ledger>, number: u64) -> Value {
        self.made.fetch_add(1, Ordering::SeqCst);
        Value { number, ledger: Arc::clone(self) }
    }

    fn alive(&self) -> u64 {
        self.made.load(Ordering::SeqCst) - self.dropped.load(Ordering::SeqCst)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.ledger.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Goes through the worker until it holds: what other workers do is not told here.
async fn until(mut holds: impl FnMut() -> bool) -> Result<()> {
    while !holds() {
        rt::nop().await?;
    }
    Ok(())
}

/// The channel ends, or has.
fn is_gone(error: Error) -> bool {
    matches!(error.name(), "EPIPE" | "QUOIT_E_STALE")
}

#[test]
fn many_senders_keep_their_orders() {
    with_other(async |other| {
        const SENDERS: u64 = 4;
        const EACH: u64 = 5000;
        for capacity in [1, 3, 500] {
            let ledger = Arc::new(Ledger::default());
            let (sender, mut receiver) = channel::many_to_one(capacity).await?;
            let mut tasks = Vec::new();
            for number in 0..SENDERS {
                let (sender, ledger) = (sender.clone(), Arc::clone(&ledger));
                let work = move || async move {
                    for value in 0..EACH {
                        sender.send((number, ledger.value(value))).await?;
                    }
                    Result::Ok(())
                };
                // Half of them here, half of them there.
                let worker = if number % 2 == 0 { other.handle } else { rt::worker() };
                tasks.push(spawn_on(worker, work)?);
            }
            drop(sender);
            let mut next = [0; SENDERS as usize];
            while let Some((number, value)) = receiver.recv().await? {
                assert_eq!(value.number, next[number as usize], "sender {number} is out of order");
                next[number as usize] += 1;
            }
            assert_eq!(next, [EACH; SENDERS as usize]);
            assert!(receiver.recv().await?.is_none(), "the end stays");
            for task in tasks {
                task.await??;
            }
            assert_eq!(ledger.alive(), 0);
        }
        Ok(())
    });
}

#[test]
fn a_full_channel_waits_and_gives_values_back() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let ledger = Arc::new(Ledger::default());
            let (sender, mut receiver) = channel::many_to_one(2).await?;
            sender.send(ledger.value(1)).await?;
            sender.send(ledger.value(2)).await?;
            let mut third = pin!(sender.send(ledger.value(3)));
            for _ in 0..20 {
                assert!(poll_once(third.as_mut()).await.is_none(), "there is no room");
                rt::nop().await?;
            }
            let recalled = sender.send(ledger.value(4)).recall().await;
            assert_eq!(recalled.map(|value| value.number), Some(4));
            let late = sender.send_timeout(ledger.value(5), Duration::from_millis(5)).await;
            let SendError { value, error } = late.expect_err("there is no room in time");
            assert_eq!((value.number, error.name()), (5, "ETIMEDOUT"));
            drop((value, sender.send(ledger.value(6))));
            until(|| ledger.alive() == 3).await?;
            for number in 1..=3 {
                let value = receiver.recv().await?.expect("a value");
                assert_eq!(value.number, number, "what was recalled, late or dropped is not inside");
            }
            third.await?;
            assert_eq!(sender.send(ledger.value(7)).recall().await.map(|value| value.number), None);
            drop(sender);
            assert_eq!(receiver.recv().await?.map(|value| value.number), Some(7));
            assert!(receiver.recv().await?.is_none());
            assert_eq!(ledger.alive(), 0);
            Ok(())
        });
    });
}

#[test]
fn dropped_sends_and_receives_lose_nothing() {
    with_other(async |other| {
        const COUNT: u64 = 4000;
        let ledger = Arc::new(Ledger::default());
        let (sender, mut receiver) = channel::one_to_one(3).await?;
        let (values, recalled) = (Arc::clone(&ledger), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&recalled);
        let sending = spawn_on(other.handle, move || async move {
            for number in 0..COUNT {
                let mut value = values.value(number);
                // Each send is called off after so many turns, and begun again with the value that came back.
                for turns in number % 3.. {
                    let mut send = Box::pin(sender.send(value));
                    let mut done = false;
                    for _ in 0..turns.min(50) {
                        done = poll_once(send.as_mut()).await.transpose()?.is_some();
                        if done {
                            break;
                        }
                        rt::nop().await?;
                    }
                    if done {
                        break;
                    }
                    match std::pin::Pin::into_inner(send).recall().await {
                        Some(back) => value = back,
                        None => break,
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
            Result::Ok(())
        })?;
        // The channel is full, and one that did not fit was called off.
        until(|| recalled.load(Ordering::SeqCst) > 0).await?;
        for number in 0..COUNT {
            let value = loop {
                if let Some(value) = poll_once(receiver.recv()).await {
                    break value?;
                }
                rt::nop().await?;
            };
            assert_eq!(value.map(|value| value.number), Some(number), "a value was lost or came twice");
        }
        assert!(receiver.recv().await?.is_none());
        sending.await??;
        assert_eq!(ledger.alive(), 0);
        Ok(())
    });
}

#[test]
fn a_dropped_receiver_drops_what_is_inside() {
    with_other(async |other| {
        let ledger = Arc::new(Ledger::default());
        for (here, taken) in [(true, 0), (false, 0), (true, 3), (false, 3)] {
            let worker = if here { rt::worker() } else { other.handle };
            let (sender, mut receiver) = channel::many_to_one(4).await?;
            let values = Arc::clone(&ledger);
            let blocked = spawn_on(worker, move || async move {
                // Until it waits for room, and the receiver goes meanwhile.
                let SendError { value, error } = loop {
                    if let Err(error) = sender.send(values.value(0)).await {
                        break error;
                    }
                };
                assert!(sender.is_closed() && is_gone(error), "{error}");
                drop(value);
                let SendError { error, .. } = sender.send(values.value(0)).await.expect_err("it is gone");
                assert!(is_gone(error), "{error}");
                Result::Ok(())
            })?;
            for _ in 0..taken {
                assert!(receiver.recv().await?.is_some());
            }
            // As many as it holds, and the one that waits; a receiver that took some may hold more.
            until(|| ledger.alive() >= 5).await?;
            drop(receiver);
            blocked.await??;
            until(|| ledger.alive() == 0).await?;
        }
        Ok(())
    });
}

#[test]
fn a_worker_that_ends_drops_or_gives_back() {
    on_each_driver(|runtime| {
        let ledger = Arc::new(Ledger::default());
        let other = Other::new(runtime);
        let handle = other.handle;
        run(runtime.worker(), async {
            let values = Arc::clone(&ledger);
            let made = spawn_on(handle, move || async move {
                let (sender, receiver) = channel::many_to_one(2).await?;
                sender.send(values.value(0)).await?;
                sender.send(values.value(1)).await?;
                // Never takes any.
                spawn(async move {
                    let _receiver: Receiver<Value> = receiver;
                    std::future::pending::<()>().await
                });
                Result::Ok(sender)
            })?;
            let sender = made.await??;
            let mut waiting = pin!(sender.send(ledger.value(2)));
            assert!(poll_once(waiting.as_mut()).await.is_none(), "there is no room");
            rt::nop().await?;
            drop(other);
            let SendError { value, error } = waiting.await.expect_err("its worker ended");
            assert!(value.number == 2 && is_gone(error), "{error}");
            drop(value);
            assert_eq!(ledger.alive(), 0, "what was inside went with the receiver");
            assert!(sender.send(ledger.value(3)).await.is_err());
            Ok(())
        });
        assert_eq!(ledger.alive(), 0);
        // Both ends outlive their executor.
        let mut executor = runtime.worker().executor().expect("an executor");
        let values = Arc::clone(&ledger);
        let ends = executor.block_on(async {
            let (sender, receiver) = channel::many_to_one(2).await?;
            sender.send(values.value(4)).await?;
            sender.send(values.value(5)).await?;
            let send = sender.send(values.value(6));
            Result::Ok((sender, receiver, send))
        });
        let ends = ends.expect("the executor runs").expect("no error");
        drop(executor);
        assert_eq!(ledger.alive(), 3, "nobody has dropped them");
        drop(ends);
        assert_eq!(ledger.alive(), 0);
    });
}

#[test]
fn one_worker_sends() {
    with_other(async |other| {
        let (sender, mut receiver) = channel::one_to_one(2).await?;
        let sender = Arc::new(sender);
        sender.send(1).await?;
        let there = Arc::clone(&sender);
        let refused = spawn_on(other.handle, move || async move { there.send(2).await })?;
        let SendError { value, error } = refused.await?.expect_err("another worker is the sender");
        assert_eq!((value, error), (2, Error::BUSY));
        sender.send(3).await?;
        drop(sender);
        assert_eq!((receiver.recv().await?, receiver.recv().await?), (Some(1), Some(3)));
        assert_eq!(receiver.recv().await?, None);
        for capacity in [0, (1 << 20) + 1] {
            let none = channel::many_to_one::<()>(capacity).await.expect_err("that is no capacity");
            assert_eq!(none.name(), "QUOIT_E_FIELD");
        }
        Ok(())
    });
}

#[test]
fn one_value_once() {
    with_other(async |other| {
        let ledger = Arc::new(Ledger::default());
        for number in 0..200 {
            let (sender, receiver) = channel::oneshot().await?;
            let value = ledger.value(number);
            let sent = spawn_on(other.handle, move || async move { sender.send(value).await })?;
            assert_eq!(receiver.await?.number, number);
            sent.await??;
        }
        let (sender, receiver) = channel::oneshot::<Value>().await?;
        drop(sender);
        assert_eq!(receiver.await.map(|value| value.number), Err(Error::CLOSED));
        let (sender, receiver) = channel::oneshot().await?;
        drop(receiver);
        let SendError { value, error } = sender.send(ledger.value(5)).await.expect_err("nobody waits");
        assert!(value.number == 5 && is_gone(error), "{error}");
        drop(value);
        let (sender, receiver) = channel::oneshot().await?;
        sender.send(ledger.value(6)).await?;
        assert_eq!(ledger.alive(), 1);
        drop(receiver);
        assert_eq!(ledger.alive(), 0, "what was inside went with the receiver");
        let (sender, receiver) = channel::oneshot().await?;
        sender.send(ledger.value(7)).await?;
        assert_eq!(receiver.await?.number, 7, "its sender is gone");
        // Never handed over.
        drop(channel::oneshot::<Value>().await?.0.send(ledger.value(8)));
        until(|| ledger.alive() == 0).await
    });
}
