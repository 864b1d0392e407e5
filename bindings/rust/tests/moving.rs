// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that go to another worker.

mod common;

use common::on_each_driver;
use quoit::{Batch, Error, Handle, Kind, ListenOptions, Worker};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const LISTEN: u64 = 1;
const MOVE: u64 = 2;
const THERE: u64 = u64::MAX - 7;

/// Turns both until one of the first's events is what is looked for.
fn until<T>(workers: [&mut Worker; 2], find: impl Fn(&Batch<'_>) -> Option<T>) -> T {
    let [first, second] = workers;
    loop {
        let batch = first.turn(Some(Duration::from_millis(1))).expect("a turn");
        if let Some(found) = find(&batch) {
            return found;
        }
        second.turn_nb().expect("a turn");
    }
}

fn of_kind(batch: &Batch<'_>, kind: Kind) -> Option<(Handle, Handle, u64, Result<u64, Error>)> {
    let event = batch.into_iter().find(|event| event.kind() == kind)?;
    Some((event.source(), event.object(), event.user_data(), event.result()))
}

fn echo_once(worker: &mut Worker, stream: Handle, client: &mut TcpStream) {
    client.write_all(b"moved").expect("the peer is there");
    worker.batch().recv(stream, 9);
    loop {
        let batch = worker.turn(None).expect("a turn");
        let Some(event) = batch.into_iter().find(|event| event.kind() == Kind::Recv) else { continue };
        assert_eq!(event.data(), b"moved");
        batch.send_received_quiet(stream, event.received(), 10);
        break;
    }
    worker.turn(Some(Duration::ZERO)).expect("a turn");
    let mut back = [0; 5];
    client.read_exact(&mut back).expect("the echo answers");
    assert_eq!(&back, b"moved");
}

#[test]
fn there_and_back() {
    on_each_driver(|runtime| {
        let mut here = runtime.worker().build().expect("a worker");
        let mut there = runtime.worker().build().expect("a worker");
        here.batch().listen("127.0.0.1:0", ListenOptions::new(), LISTEN).expect("the address is one");
        let (listener, port) = until([&mut here, &mut there], |batch| {
            let event = batch.into_iter().find(|event| event.kind() == Kind::Listen)?;
            Some((event.object(), event.aux() as u16))
        });
        here.batch().accept(listener, false, 3);
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let accepted = until([&mut here, &mut there], |batch| of_kind(batch, Kind::Accept));
        let mut stream = accepted.1;
        for round in 0..4 {
            let (from, to) = if round % 2 == 0 { (&mut here, &mut there) } else { (&mut there, &mut here) };
            from.batch().move_to(stream, from.handle().handle(), THERE, MOVE);
            let refused = until([from, to], |batch| of_kind(batch, Kind::Move));
            assert!(refused.3.is_err(), "it is here already");
            from.batch().move_to(stream, to.handle().handle(), THERE, MOVE);
            from.turn(Some(Duration::ZERO)).expect("a turn");
            let moved = until([to, from], |batch| of_kind(batch, Kind::Moved));
            assert_eq!((moved.0, moved.2), (stream, THERE));
            let told = until([from, to], |batch| of_kind(batch, Kind::Move));
            assert_eq!(told, (stream, moved.1, MOVE, Ok(0)));
            stream = moved.1;
            echo_once(to, stream, &mut client);
        }
    });
}
