// SPDX-License-Identifier: MIT OR Apache-2.0
//! The batch API: echo on every driver, with the sizes that hurt.

mod common;

use common::{check_echo, eventually, on_each_driver, pattern, small_pool};
use quoit::{
    Batch, Error, Handle, Kind, ListenOptions, Message, Runtime, Worker, WorkerBuilder, WorkerHandle,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

const LISTEN: u64 = 1;

/// Answers each data event with its own bytes.
fn echo(batch: &Batch<'_>, port: &mut impl FnMut(u16)) {
    for event in batch {
        match event.kind() {
            Kind::Message if event.user_data() == 0 => {
                batch.listen("127.0.0.1:0", ListenOptions::new(), LISTEN).expect("the address is one")
            }
            Kind::Listen => {
                event.result().expect("listen");
                assert_eq!(event.user_data(), LISTEN);
                batch.accept(event.object(), true, 2);
                port(event.aux() as u16);
            }
            Kind::Recv => {
                if !event.data().is_empty() {
                    assert_eq!(event.user_data(), 2, "events of AUTO_RECV carry the accept's user_data");
                    batch.send_received_quiet(event.source(), event.received(), 3);
                }
                if !event.more() {
                    batch.close(event.source(), 4);
                }
            }
            Kind::Send => panic!("a quiet send told {:?}", event.result()),
            _ => {}
        }
    }
}

/// An echo on a thread of ours, until it is stopped. Gives its port and handle.
fn with_echo(options: WorkerBuilder, client: impl FnOnce(u16, WorkerHandle)) {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut worker = options.build().expect("a worker");
            let handle = worker.handle();
            worker.batch().listen("127.0.0.1:0", ListenOptions::new(), LISTEN).expect("the address is one");
            worker
                .run(|batch| {
                    echo(batch, &mut |port| tell.send((port, handle)).expect("the test waits"));
                    ControlFlow::Continue(())
                })
                .expect("the worker runs until stopped");
        });
        let (port, handle) = told.recv().expect("the echo listens");
        client(port, handle);
        handle.stop().expect("a running worker can be stopped");
    });
}

fn sizes_round(port: u16) {
    std::thread::scope(|scope| {
        for client in 0..8u64 {
            scope.spawn(move || {
                for size in [1, 2, 63, 1000, 4096, 65536, 300_000] {
                    check_echo(port, &pattern(client * 100 + size as u64, size));
                }
            });
        }
    });
}

#[test]
fn echo_returns_every_byte() {
    on_each_driver(|runtime| with_echo(runtime.worker(), |port, _| sizes_round(port)));
}

#[test]
fn echo_with_sixteen_buffers() {
    on_each_driver(|runtime| with_echo(small_pool(runtime), |port, _| sizes_round(port)));
}

#[test]
fn echo_with_one_event_per_batch() {
    on_each_driver(|runtime| {
        with_echo(runtime.worker().events_max(1).ops_max(1), |port, _| sizes_round(port))
    });
}

#[test]
fn unknown_events_are_ignored() {
    on_each_driver(|runtime| with_echo(runtime.worker().grease(), |port, _| sizes_round(port)));
}

#[test]
fn a_tick_is_one_crossing() {
    on_each_driver(|runtime| {
        with_echo(runtime.worker(), |port, handle| {
            sizes_round(port);
            let stats = handle.stats().expect("a running worker has counters");
            assert!(stats.bytes_received >= 8 * 300_000 && stats.accepts >= 8 * 7);
            // One per turn, and nothing for the sends: they leave with the next turn.
            assert!(
                stats.crossings <= stats.ticks + 2,
                "{} crossings, {} ticks",
                stats.crossings,
                stats.ticks
            );
        })
    });
}

#[test]
fn a_thread_of_the_library_serves() {
    on_each_driver(|runtime| {
        let (tell, told) = mpsc::channel();
        let thread = runtime
            .worker()
            .start(move |batch| {
                echo(batch, &mut |port| tell.send(port).expect("the test waits"));
                ControlFlow::Continue(())
            })
            .expect("a worker thread");
        sizes_round(told.recv().expect("the echo listens"));
        let stats = thread.handle().stats().expect("counters");
        assert_eq!(stats.driver(), runtime.driver());
        thread.handle().stop().expect("stop");
        thread.join().expect("it ends well");
    });
}

#[test]
fn dropping_a_thread_stops_it() {
    on_each_driver(|runtime| {
        let alive = Arc::new(());
        let inside = Arc::clone(&alive);
        let thread = runtime.worker().start(move |_| {
            let _ = &inside;
            ControlFlow::Continue(())
        });
        let handle = thread.as_ref().expect("a worker thread").handle();
        drop(thread);
        assert_eq!(Arc::strong_count(&alive), 1, "the callback was dropped");
        assert!(handle.stop().is_err(), "the worker is gone");
    });
}

/// Turns until `done` is told, or fails.
fn turn_until(worker: &mut Worker, mut done: impl FnMut(&Batch<'_>) -> bool) {
    for _ in 0..10_000 {
        let batch = worker.turn(Some(Duration::from_secs(10))).expect("a turn");
        if done(&batch) {
            return;
        }
    }
    panic!("it does not end");
}

#[test]
fn more_operations_than_the_array_holds() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().ops_max(8).events_max(16).build().expect("a worker");
        const COUNT: u64 = 5_000;
        for number in 0..COUNT {
            worker.batch().nop(number);
        }
        let mut next = 0;
        turn_until(&mut worker, |batch| {
            for event in batch.events().filter(|event| event.kind() == Kind::Nop) {
                assert_eq!(event.result(), Ok(0));
                assert_eq!(event.user_data(), next, "one sender's operations end in order");
                next += 1;
            }
            next == COUNT
        });
    });
}

/// A connected pair of streams on one worker: connect, accept, and the listener.
fn pair(worker: &mut Worker) -> (Handle, Handle) {
    worker.batch().listen("127.0.0.1:0", ListenOptions::new(), 1).expect("the address is one");
    let (mut near, mut far) = (Handle::NONE, Handle::NONE);
    turn_until(worker, |batch| {
        for event in batch {
            match event.kind() {
                Kind::Listen => {
                    let addr = batch.local_addr(event.object()).expect("a listener has an address");
                    assert_eq!(u32::from(addr.port()), event.aux());
                    batch.accept(event.object(), false, 2);
                    batch.connect(addr.to_socket_addr().expect("an IP address"), 3).expect("an address");
                }
                Kind::Accept => far = event.object(),
                Kind::Connect => near = event.result().map(|_| event.object()).expect("connect"),
                _ => {}
            }
        }
        !near.is_none() && !far.is_none()
    });
    (near, far)
}

/// What a stream receives until there are so many bytes.
fn receive(worker: &mut Worker, stream: Handle, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    turn_until(worker, |batch| {
        for event in batch.events().filter(|event| event.kind() == Kind::Recv && event.source() == stream) {
            event.result().expect("recv");
            bytes.extend_from_slice(event.data());
        }
        bytes.len() >= count
    });
    bytes
}

#[test]
fn payloads_larger_than_the_scratch_region() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().scratch_len(4096).send_limit(64 << 20).build().expect("a worker");
        let (near, far) = pair(&mut worker);
        worker.batch().recv(far, 9);
        let mut sent = Vec::new();
        for (seed, size) in [100, 4000, 5000, 1, 2 << 20, 64, 3 << 20].into_iter().enumerate() {
            let mut bytes = pattern(seed as u64, size);
            worker.batch().send_quiet(near, &bytes, 8);
            sent.extend_from_slice(&bytes);
            // Copied already: what becomes of our memory does not matter.
            bytes.fill(0);
        }
        worker.batch().send_static(near, b"the end", 8);
        sent.extend_from_slice(b"the end");
        assert!(receive(&mut worker, far, sent.len()) == sent, "the bytes differ");
    });
}

#[test]
fn a_kept_buffer_can_be_sent_later() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let (near, far) = pair(&mut worker);
        worker.batch().recv(far, 9);
        worker.batch().send_quiet(near, b"keep me", 8);
        let (mut kept, mut done) = (None, false);
        turn_until(&mut worker, |batch| {
            for event in batch {
                match event.kind() {
                    Kind::Recv => {
                        batch.keep(event.received(), 10);
                        kept = Some(event.received());
                    }
                    Kind::Keep => done = event.result().map(|_| true).expect("keep"),
                    _ => {}
                }
            }
            done
        });
        let kept = kept.expect("bytes came");
        assert!(worker.stats().expect("counters").buffers_kept > 0);
        // Some turns later it is still there.
        worker.turn_nb().expect("a turn");
        worker.turn_nb().expect("a turn");
        worker.batch().recv(near, 11);
        worker.batch().send_received_quiet(far, kept.slice(5..7), 12);
        worker.batch().send_received_quiet(far, kept.slice(0..4), 12);
        assert_eq!(receive(&mut worker, near, 6), b"mekeep");
        let kept = kept.buffer();
        worker.batch().release(kept);
        worker.batch().release(kept);
        let mut refused = None;
        turn_until(&mut worker, |batch| {
            refused =
                batch.events().find(|event| event.kind() == Kind::Release).and_then(|event| event.error());
            refused.is_some()
        });
        assert_eq!(refused, Some(Error::STALE), "releasing twice is told");
        assert_eq!(worker.stats().expect("counters").buffers_kept, 0);
    });
}

#[test]
fn workers_send_each_other_messages() {
    on_each_driver(|runtime| {
        let sum = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sum);
        let receiver = runtime
            .worker()
            .start(move |batch| {
                for event in
                    batch.events().filter(|event| event.kind() == Kind::Message && event.user_data() == 77)
                {
                    assert_eq!((event.raw_result(), event.aux()), (-5, 6));
                    count.fetch_add(event.value(), Ordering::Relaxed);
                }
                ControlFlow::Continue(())
            })
            .expect("a worker thread");
        let mut sender = runtime.worker().build().expect("a worker");
        let message = |word1| Message { word1, word2: -5, tag: 6, user_data: 77 };
        for word1 in 1..=100 {
            sender.batch().post(receiver.handle().handle(), message(word1), 1);
        }
        for word1 in 101..=200 {
            while !receiver.handle().post(message(word1)).expect("the receiver lives") {
                std::thread::yield_now();
            }
        }
        sender.turn_nb().expect("a turn");
        let all = eventually(Duration::from_secs(20), || sum.load(Ordering::Relaxed) == 200 * 201 / 2);
        assert!(all, "only {} arrived", sum.load(Ordering::Relaxed));
    });
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        for ms in [30, 10, 20] {
            worker.batch().timer(Duration::from_millis(ms), Duration::ZERO, ms);
        }
        worker.batch().timer(Duration::from_millis(5), Duration::from_millis(5), 5);
        let (mut order, mut periodic) = (Vec::new(), 0);
        turn_until(&mut worker, |batch| {
            for event in batch.events().filter(|event| event.kind() == Kind::Timer) {
                match event.user_data() {
                    5 if event.more() => periodic += event.result().expect("expirations"),
                    5 => assert_eq!(event.error(), Some(Error::CANCELED)),
                    once => order.push(once),
                }
            }
            order.len() == 3
        });
        assert_eq!(order, [10, 20, 30]);
        assert!(periodic >= 4, "a period of 5 ms expired {periodic} times in 30 ms");
        worker.batch().cancel_by_data(quoit::sys::QUOIT_OP_TIMER, 5, 99);
        let mut ended = HashMap::new();
        turn_until(&mut worker, |batch| {
            for event in batch.events().filter(|event| !event.more()) {
                ended.insert(event.user_data(), event.result());
            }
            ended.len() == 2
        });
        assert_eq!(ended[&99], Ok(1));
        assert_eq!(ended[&5], Err(Error::CANCELED));
    });
}

#[test]
fn a_worker_shuts_down() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let (_near, far) = pair(&mut worker);
        worker.batch().recv(far, 9);
        worker.batch().timer(Duration::from_secs(1000), Duration::ZERO, 5);
        worker.turn_nb().expect("a turn");
        assert_eq!(worker.shutdown(Duration::from_secs(10)), Ok(true));
        assert_eq!(worker.turn_nb().err(), Some(Error::CLOSED));
        assert_eq!(worker.shutdown(Duration::from_secs(1)), Ok(true), "once more changes nothing");
    });
}

#[test]
fn the_worker_fd_tells_when_there_is_something() {
    use std::os::fd::AsRawFd;
    let _limit = common::Limit::new(60);
    let runtime = Runtime::new().expect("a runtime");
    let mut worker = runtime.worker().build().expect("a worker");
    let mut host = runtime.worker().build().expect("another worker, to host it");
    assert!(worker.fd().expect("a descriptor").as_raw_fd() >= 0);
    worker.turn_nb().expect("a turn");
    worker.handle().post(Message { user_data: 5, ..Message::default() }).expect("a post");
    host.batch().poll(worker.fd().expect("a descriptor"), quoit::sys::QUOIT_POLL_IN, 1);
    turn_until(&mut host, |batch| batch.events().any(|event| event.kind() == Kind::Poll));
    let mut came = false;
    turn_until(&mut worker, |batch| {
        came |= batch.events().any(|event| event.kind() == Kind::Message && event.user_data() == 5);
        came
    });
}
