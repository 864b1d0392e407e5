// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks on other workers, and what tasks tell each other.

mod common;

use common::{on_each_driver, with_other, Other};
use quoit::rt;
use quoit::sync::{mpsc, oneshot, Closed, Notify};
use quoit::{spawn, spawn_on, time, Error, Message, Result};
use std::cell::Cell;
use std::future::{pending, poll_fn, Future};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[test]
fn spawned_tasks_stay_there() {
    with_other(async |other| {
        let here = std::thread::current().id();
        let mut tasks = Vec::new();
        for number in 0..500u64 {
            tasks.push(spawn_on(other.handle, move || async move {
                // Not Send, and held over awaits.
                let local = Rc::new(Cell::new(number));
                rt::nop().await?;
                time::sleep(Duration::from_millis(number % 3)).await?;
                assert_ne!(std::thread::current().id(), here);
                Result::Ok((local.get(), rt::worker()))
            })?);
        }
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await??, (number as u64, other.handle));
        }
        let own = spawn_on(rt::worker(), || async { rt::worker() })?;
        assert_eq!(own.await?, rt::worker(), "one's own worker will do too");
        Ok(())
    });
}

#[test]
fn a_panic_there_is_an_error_here() {
    with_other(async |other| {
        let in_the_future = spawn_on(other.handle, || async {
            rt::nop().await.expect("it turns");
            panic!("far away");
        })?;
        let error = in_the_future.await.expect_err("it panicked");
        assert_eq!(error.to_string(), "the task panicked: far away");
        let in_the_closure =
            spawn_on(other.handle, || -> std::future::Ready<()> { panic!("in the closure") })?;
        assert!(in_the_closure.await.expect_err("it panicked").is_panic());
        let after = spawn_on(other.handle, || async { 1 })?;
        assert_eq!(after.await?, 1, "the worker goes on");
        Ok(())
    });
}

#[test]
fn aborts_reach_there() {
    with_other(async |other| {
        let held = Arc::new(());
        let (tell, told) = oneshot::channel();
        let inside = Arc::clone(&held);
        let task = spawn_on(other.handle, move || async move {
            let _held = inside;
            tell.send(()).ok();
            pending::<()>().await
        })?;
        told.await?;
        assert!(!task.is_finished());
        task.abort();
        assert!(task.await.expect_err("it was aborted").is_cancelled());
        // The closure's memory is let go of there, a moment after the end is told here.
        while Arc::strong_count(&held) > 1 {
            rt::yield_now().await;
        }
        Ok(())
    });
}

#[test]
fn a_worker_that_ends_cancels() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let other = Other::new(runtime);
        let handle = other.handle;
        let left = executor.block_on(async {
            let task = spawn_on(handle, pending::<()>)?;
            spawn_on(handle, || async {})?.await?;
            drop(other);
            assert!(task.await.expect_err("its worker ended").is_cancelled());
            let refused = spawn_on(handle, || async {}).expect_err("nobody is there");
            assert_eq!(refused, Error::CLOSED);
            Result::Ok(())
        });
        left.expect("the executor runs").expect("no error");
        let never = spawn_on(executor.handle(), || async {}).expect("it may run later");
        assert!(!never.is_finished());
        drop(executor);
        assert!(never.is_finished(), "cancelled with its executor");
    });
}

#[test]
fn one_value_once() {
    with_other(async |other| {
        for number in 0..200u64 {
            let (ask, asked) = oneshot::channel::<u64>();
            let (answer, answered) = oneshot::channel::<u64>();
            drop(spawn_on(other.handle, move || async move {
                answer.send(asked.await.map_or(0, |value| value * 2)).ok();
            })?);
            ask.send(number).expect("it waits");
            assert_eq!(answered.await, Ok(number * 2));
        }
        let (sender, receiver) = oneshot::channel::<u64>();
        drop(sender);
        assert_eq!(receiver.await, Err(Closed));
        let (mut sender, mut receiver) = oneshot::channel::<u64>();
        assert_eq!(receiver.try_recv(), Ok(None));
        let closing = spawn(async move {
            sender.closed().await;
            assert!(sender.is_closed());
            sender.send(5)
        });
        rt::nop().await?;
        drop(receiver);
        assert_eq!(closing.await?, Err(5), "the value comes back");
        Ok(())
    });
}

#[test]
fn a_queue_between_workers_is_bounded_and_in_order() {
    with_other(async |other| {
        const SENDERS: u64 = 4;
        const EACH: u64 = 3000;
        const ROOM: usize = 7;
        let (sender, mut receiver) = mpsc::channel::<(u64, u64)>(ROOM);
        let inside = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for number in 0..SENDERS {
            let (sender, inside) = (sender.clone(), Arc::clone(&inside));
            // Half of them here, half of them there.
            let work = move || async move {
                for value in 0..EACH {
                    let permit = sender.reserve().await?;
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < ROOM as u64, "over the bound");
                    permit.send((number, value)).expect("the receiver is there");
                }
                Result::Ok(())
            };
            let worker = if number % 2 == 0 { other.handle } else { rt::worker() };
            tasks.push(spawn_on(worker, work)?);
        }
        drop(sender);
        let mut next = [0; SENDERS as usize];
        loop {
            // A place is free again when its value is taken, so it is counted before.
            if inside.load(Ordering::SeqCst) > 0 {
                inside.fetch_sub(1, Ordering::SeqCst);
                let Some((number, value)) = receiver.recv().await else { panic!("a value was counted") };
                assert_eq!(value, next[number as usize], "sender {number} is out of order");
                next[number as usize] += 1;
                continue;
            }
            if next.iter().all(|count| *count == EACH) {
                break;
            }
            rt::yield_now().await;
        }
        assert_eq!(receiver.recv().await, None, "all senders are gone");
        for task in tasks {
            task.await??;
        }
        Ok(())
    });
}

/// Polls once.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_full_queue_gives_its_room_on() {
    let (sender, mut receiver) = mpsc::channel(1);
    assert_eq!(sender.try_send(1), Ok(()));
    assert!(sender.try_send(2) == Err(mpsc::TrySendError::Full(2)));
    let mut first = Box::pin(sender.reserve());
    let mut second = Box::pin(sender.send(3));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(sender.try_send(4) == Err(mpsc::TrySendError::Full(4)), "the room is the first one's in line");
    assert!(poll(second.as_mut()).is_pending());
    // Dropped with the room granted: it goes to the next.
    drop(first);
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(()))));
    assert_eq!(receiver.try_recv(), Ok(3));
    let Poll::Ready(Ok(permit)) = poll(pin!(sender.reserve())) else { panic!("there is room") };
    let mut third = Box::pin(sender.reserve());
    assert!(poll(third.as_mut()).is_pending());
    drop(permit);
    assert!(matches!(poll(third.as_mut()), Poll::Ready(Ok(_))));
    drop(third);
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
    assert_eq!(sender.try_send(9), Ok(()));
    let mut waiting = Box::pin(sender.send(10));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(receiver);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Err(mpsc::SendError(10)))), "the value comes back");
    assert!(sender.is_closed() && sender.try_send(11) == Err(mpsc::TrySendError::Closed(11)));
}

#[test]
fn a_dropped_receive_loses_nothing() {
    let (sender, mut receiver) = mpsc::channel(4);
    {
        let mut receive = Box::pin(receiver.recv());
        assert!(poll(receive.as_mut()).is_pending());
        sender.try_send(1).expect("there is room");
    }
    assert_eq!(receiver.try_recv(), Ok(1));
    drop(sender);
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Closed));
}

#[test]
fn wakes_without_a_value() {
    let notify = Notify::new();
    notify.notify_one();
    notify.notify_one();
    assert!(poll(pin!(notify.notified())).is_ready(), "one is kept");
    assert!(poll(pin!(notify.notified())).is_pending(), "one only");
    let (mut first, mut second) = (Box::pin(notify.notified()), Box::pin(notify.notified()));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    notify.notify_one();
    assert!(poll(second.as_mut()).is_pending(), "first come, first served");
    drop(first);
    assert!(poll(second.as_mut()).is_ready(), "a wake that was not told goes on");
    let (mut polled, mut fresh) = (Box::pin(notify.notified()), Box::pin(notify.notified()));
    assert!(poll(polled.as_mut()).is_pending());
    notify.notify_waiters();
    assert!(poll(polled.as_mut()).is_ready() && poll(fresh.as_mut()).is_ready(), "all are woken");
    assert!(poll(pin!(notify.notified())).is_pending(), "nothing is kept");
}

#[test]
fn notify_between_workers() {
    with_other(async |other| {
        let (there, here) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (waits, wakes) = (Arc::clone(&there), Arc::clone(&here));
        let task = spawn_on(other.handle, move || async move {
            for _ in 0..1000 {
                waits.notified().await;
                wakes.notify_one();
            }
        })?;
        for _ in 0..1000 {
            there.notify_one();
            here.notified().await;
        }
        task.await?;
        Ok(())
    });
}

#[test]
fn a_full_mailbox_refuses_no_wake() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().mailbox_ops(1).executor().expect("an executor");
        let handle = executor.handle();
        let waker = executor.block_on(poll_fn(|context| Poll::Ready(context.waker().clone())));
        let waker = waker.expect("the executor runs");
        assert_eq!(handle.post(Message::default()), Ok(true));
        assert_eq!(handle.post(Message::default()), Ok(false), "there is no room");
        // Nobody reads the mailbox meanwhile: a wake and a spawn that waited for room would wait for ever.
        let spawned = std::thread::spawn(move || {
            waker.wake();
            spawn_on(handle, || async { 7 })
        });
        let task = spawned.join().expect("no panic").expect("the executor is there");
        assert_eq!(executor.block_on(task).expect("the executor runs").expect("no panic"), 7);
    });
}
