// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panic in a program's code never crosses into C: in a task it is the task's end, elsewhere it stops the worker cleanly and
//! goes on in the caller.

mod common;

use common::on_each_driver;
use quoit::net::{Listener, Stream};
use quoit::{rt, time, Error, Kind, Result};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<&str>().map(|text| text.to_string()).unwrap_or_default()
}

#[test]
fn in_a_batch_callback() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        worker.batch().nop(1);
        worker.batch().timer(Duration::from_secs(1000), Duration::ZERO, 2);
        let outcome = catch_unwind(AssertUnwindSafe(|| worker.run(|_| panic!("in the callback"))));
        assert_eq!(message(outcome.expect_err("the panic goes on")), "in the callback");
        assert_eq!(worker.turn_nb().err(), Some(Error::CLOSED), "the worker was stopped");
    });
}

#[test]
fn in_a_callback_on_a_thread_of_the_library() {
    on_each_driver(|runtime| {
        let thread = runtime
            .worker()
            .start(|batch| {
                assert!(batch.events().any(|event| event.kind() == Kind::Message));
                if !batch.is_empty() {
                    panic!("on the thread");
                }
                ControlFlow::Continue(())
            })
            .expect("a worker thread");
        let outcome = catch_unwind(AssertUnwindSafe(|| thread.join()));
        assert_eq!(message(outcome.expect_err("the panic goes on")), "on the thread");
    });
}

#[test]
fn in_a_task_it_is_the_tasks_end() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let listener = Listener::bind("127.0.0.1:0").await?;
            let near = Stream::connect(listener.local_addr()?).await?;
            let far = listener.accept().await?;
            let other =
                rt::spawn(async move { far.recv().await.map(|lease| lease.map(|lease| lease.to_vec())) });
            let end = rt::spawn(async {
                time::sleep(Duration::from_millis(2)).await.expect("a timer");
                panic!("in a task");
            })
            .await;
            let error = end.expect_err("it panicked");
            assert!(error.is_panic() && !error.is_cancelled());
            assert_eq!(error.to_string(), "the task panicked: in a task");
            assert_eq!(message(error.into_panic().expect("it panicked")), "in a task");
            // One that nobody waits for ends alone too.
            drop(rt::spawn(async { panic!("unheard") }));
            near.send("still served").await.0?;
            assert_eq!(other.await??.as_deref(), Some(&b"still served"[..]));
            Result::Ok(())
        });
        outcome.expect("the worker goes on").expect("no error");
        assert_eq!(executor.block_on(async { 5 }), Ok(5), "and takes more");
    });
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

#[test]
fn in_the_drop_of_a_task() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let held = PanicsOnDrop;
            let end = rt::spawn(async move {
                let _held = held;
                rt::nop().await
            })
            .await;
            assert_eq!(message(end.expect_err("it panicked").into_panic().expect("a panic")), "in a drop");
            rt::nop().await
        });
        assert_eq!(outcome, Ok(Ok(())));
    });
}

#[test]
fn in_the_root() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            executor.block_on(async {
                rt::nop().await?;
                if true {
                    panic!("in the root");
                }
                Result::Ok(())
            })
        }));
        assert_eq!(message(outcome.expect_err("the panic goes on")), "in the root");
        // Another executor on this thread is not affected.
        let mut other = runtime.worker().executor().expect("an executor");
        assert_eq!(other.block_on(async { rt::nop().await }).expect("it runs"), Ok(()));
    });
}

#[test]
fn in_an_offloaded_closure() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let value = executor.block_on(async {
            let task = async { rt::unblock(|| panic!("on the pool")).await.map(|()| 0) };
            let outcome = catch_unwind_future(task).await;
            assert_eq!(message(outcome.expect_err("the panic goes on")), "on the pool");
            rt::unblock(|| 7).await
        });
        assert_eq!(value.expect("the executor runs"), Ok(7));
    });
}

/// Catches what a future's polls throw.
async fn catch_unwind_future<F: std::future::Future>(future: F) -> std::thread::Result<F::Output> {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(std::task::Poll::Ready(value)) => std::task::Poll::Ready(Ok(value)),
        Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

#[test]
fn block_on_inside_of_block_on_is_refused() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let mut inner = runtime.worker().executor().expect("an executor");
        let refused = executor.block_on(async { inner.block_on(async {}) }).expect("the outer one runs");
        assert_eq!(refused, Err(Error::REENTER));
    });
}
