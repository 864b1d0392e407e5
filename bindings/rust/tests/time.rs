// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of the executor, tasks, and wakes from other threads.

mod common;

use common::on_each_driver;
use quoit::{rt, time, Result};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

#[test]
fn nothing_fires_early_and_order_holds() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let order = executor.block_on(async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let begin = Instant::now();
            let tasks: Vec<_> = [40u64, 10, 30, 20, 0]
                .into_iter()
                .map(|ms| {
                    let order = Rc::clone(&order);
                    rt::spawn(async move {
                        time::sleep(Duration::from_millis(ms)).await?;
                        assert!(begin.elapsed() >= Duration::from_millis(ms), "{ms} ms fired early");
                        order.borrow_mut().push(ms);
                        Result::Ok(())
                    })
                })
                .collect();
            for task in tasks {
                task.await??;
            }
            Result::Ok(order.take())
        });
        assert_eq!(order.expect("the executor runs"), Ok(vec![0, 10, 20, 30, 40]));
    });
}

#[test]
fn ten_thousand_sleeps() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let count = executor.block_on(async {
            let count = Rc::new(Cell::new(0));
            let tasks: Vec<_> = (0..10_000u64)
                .map(|number| {
                    let count = Rc::clone(&count);
                    rt::spawn(async move {
                        time::sleep(Duration::from_millis(number % 50)).await?;
                        count.set(count.get() + 1);
                        Result::Ok(())
                    })
                })
                .collect();
            for task in tasks {
                task.await??;
            }
            Result::Ok(count.get())
        });
        assert_eq!(count.expect("the executor runs"), Ok(10_000));
    });
}

#[test]
fn limits_and_intervals() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let late = time::timeout(Duration::from_millis(5), time::sleep(Duration::from_secs(1000))).await;
            assert_eq!(late.expect_err("it takes longer").name(), "ETIMEDOUT");
            assert_eq!(time::timeout(Duration::from_secs(10), async { 5 }).await, Ok(5));
            let begin = Instant::now();
            let mut interval = time::interval(Duration::from_millis(4));
            let mut expirations = 0;
            while expirations < 5 {
                expirations += interval.tick().await?;
            }
            assert!(begin.elapsed() >= Duration::from_millis(20), "five periods took {:?}", begin.elapsed());
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn yielding_lets_others_and_the_kernel_run() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let done = Rc::new(Cell::new(false));
            let flag = Rc::clone(&done);
            rt::spawn(async move {
                time::sleep(Duration::from_millis(3)).await?;
                flag.set(true);
                Result::Ok(())
            });
            let mut yields = 0u64;
            while !done.get() {
                rt::yield_now().await;
                yields += 1;
            }
            assert!(yields > 0);
        });
        outcome.expect("the executor runs");
    });
}

/// A value that another thread gives.
struct Channel<T> {
    inner: Mutex<(Vec<T>, Option<Waker>)>,
}

impl<T> Channel<T> {
    fn send(&self, value: T) {
        let mut inner = self.inner.lock().expect("no panic");
        inner.0.push(value);
        if let Some(waker) = inner.1.take() {
            waker.wake();
        }
    }

    async fn receive(&self) -> Vec<T> {
        poll_fn(|context| {
            let mut inner = self.inner.lock().expect("no panic");
            if inner.0.is_empty() {
                inner.1 = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut inner.0))
        })
        .await
    }
}

#[test]
fn other_threads_wake_tasks() {
    on_each_driver(|runtime| {
        const THREADS: u64 = 8;
        const EACH: u64 = 5_000;
        let mut executor = runtime.worker().executor().expect("an executor");
        let channel = Arc::new(Channel { inner: Mutex::new((Vec::new(), None)) });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let channel = Arc::clone(&channel);
                std::thread::spawn(move || (0..EACH).for_each(|number| channel.send(thread * EACH + number)))
            })
            .collect();
        let sum = executor.block_on(async {
            let (mut count, mut sum) = (0, 0);
            while count < THREADS * EACH {
                for value in channel.receive().await {
                    count += 1;
                    sum += value;
                }
            }
            sum
        });
        let all = THREADS * EACH;
        assert_eq!(sum, Ok(all * (all - 1) / 2), "a wake or a value was lost");
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
}

#[test]
fn a_waker_may_outlive_everything() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let waker =
            executor.block_on(poll_fn(|context| Poll::Ready(context.waker().clone()))).expect("it runs");
        waker.wake_by_ref();
        drop(executor);
        waker.wake_by_ref();
        let other = std::thread::spawn(move || waker.wake());
        other.join().expect("no panic");
        // A later executor may have the same number: a wake too many does nothing.
        let mut executor = runtime.worker().executor().expect("an executor");
        executor.block_on(async { rt::nop().await }).expect("it runs").expect("no error");
    });
}

#[test]
fn tasks_go_on_in_the_next_call() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let mut task = None;
        let spawned = executor.block_on(async {
            task = Some(rt::spawn(async {
                time::sleep(Duration::from_millis(5)).await?;
                Result::Ok(7)
            }));
        });
        spawned.expect("the executor runs");
        let task = task.expect("it was spawned");
        assert!(!task.is_finished());
        let end = executor.block_on(task).expect("the executor runs").expect("no panic");
        assert_eq!(end, Ok(7));
    });
}

#[test]
fn a_stopped_worker_ends_the_executor() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let handle = executor.handle();
        let stopper = std::thread::spawn(move || handle.stop());
        let ended = executor.block_on(async {
            let slept = time::sleep(Duration::from_secs(1000)).await;
            assert!(slept.is_err(), "the sleep was ended");
            // What is asked for now is refused.
            time::sleep(Duration::from_millis(1)).await
        });
        assert!(!matches!(ended, Ok(Ok(()))), "{ended:?}");
        stopper.join().expect("no panic").expect("a running worker can be stopped");
        assert!(executor.block_on(async {}).is_err());
    });
}
