// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a worker in order.

mod common;

use common::on_each_driver;
use quoit::{Kind, ListenOptions, Runtime, WorkerHandle};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::Duration;

/// What a drain told: more to come, how it went, streams.
type Told = (bool, bool, u64);

/// An echo that runs until it ends by itself, beside a client with one connection.
fn with_echo(runtime: &Runtime, client: impl FnOnce(TcpStream, WorkerHandle)) -> Vec<Told> {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || {
            let mut worker = runtime.worker().build().expect("a worker");
            let handle = worker.handle();
            let mut drain = Vec::new();
            worker.batch().listen("127.0.0.1:0", ListenOptions::new(), 1).expect("the address is one");
            worker
                .run(|batch| {
                    for event in batch {
                        match event.kind() {
                            Kind::Listen => {
                                batch.accept(event.object(), true, 2);
                                tell.send((event.aux() as u16, handle)).expect("the test waits");
                            }
                            Kind::Recv if event.more() => {
                                batch.send_received_quiet(event.source(), event.received(), 3)
                            }
                            Kind::Recv => batch.close(event.source(), 4),
                            Kind::Drain => drain.push((event.more(), event.result().is_ok(), event.value())),
                            _ => {}
                        }
                    }
                    ControlFlow::Continue(())
                })
                .expect("the worker runs until drained");
            drain
        });
        let (port, handle) = told.recv().expect("the echo listens");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the echo accepts");
        client(stream, handle);
        echo.join().expect("the echo ends")
    })
}

fn echo(stream: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    stream.write_all(bytes).expect("the echo reads");
    stream.read_exact(&mut back).expect("the echo answers");
    assert_eq!(back, bytes);
}

#[test]
fn accepted_streams_finish() {
    on_each_driver(|runtime| {
        let told = with_echo(runtime, |mut stream, worker| {
            echo(&mut stream, b"one");
            worker.drain(Duration::from_secs(3600)).expect("a running worker can be drained");
            echo(&mut stream, b"two");
        });
        assert_eq!(told, [(true, true, 1), (false, true, 0)]);
    });
}

#[test]
fn grace_is_over() {
    on_each_driver(|runtime| {
        let mut kept = None;
        let told = with_echo(runtime, |mut stream, worker| {
            echo(&mut stream, b"one");
            worker.drain(Duration::from_millis(20)).expect("a running worker can be drained");
            kept = Some(stream);
        });
        assert_eq!(told, [(true, true, 1), (false, false, 1)]);
    });
}
