// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams, options of sockets and channels, a batch at a time.

mod common;

use common::on_each_driver;
use quoit::{sys, BindOptions, Error, Event, Handle, Kind, Message, Worker};
use std::time::Duration;

/// Turns until an event is what is looked for.
fn until<T>(worker: &mut Worker, find: impl Fn(&Event<'_>) -> Option<T>) -> T {
    loop {
        let batch = worker.turn(Some(Duration::from_secs(60))).expect("a turn");
        if let Some(found) = batch.into_iter().find_map(|event| find(&event)) {
            return found;
        }
    }
}

fn ended(worker: &mut Worker, user_data: u64) -> Result<Handle, Error> {
    until(worker, |event| (event.user_data() == user_data).then(|| event.result().map(|_| event.object())))
}

#[test]
fn datagrams_and_options() {
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let bind = |worker: &mut Worker| {
            worker.batch().bind("127.0.0.1:0", BindOptions::new(), 1).expect("the address is one");
            ended(worker, 1).expect("a socket")
        };
        let (near, far) = (bind(&mut worker), bind(&mut worker));
        let far_addr = worker.batch().local_addr(far).expect("an address");
        let near_addr = worker.batch().local_addr(near).expect("an address");
        worker.batch().recv_from(far, 100, 2);
        for (len, cut) in [(0, 0), (7, 7), (300, 100)] {
            worker.batch().send_to(near, &vec![9; len], far_addr, 3).expect("the address is one");
            let told = until(&mut worker, |event| {
                let told = (event.result(), event.data().to_vec(), event.peer(), event.truncated());
                (event.kind() == Kind::RecvMsg).then_some(told)
            });
            assert_eq!(told, (Ok(len as u64), vec![9; cut], Some(near_addr), cut < len));
        }
        worker.batch().send_datagram(near, b"to whom?", 4);
        assert_eq!(ended(&mut worker, 4).expect_err("it has no peer").name(), "EDESTADDRREQ");
        worker.batch().set_socket_option(far, sys::QUOIT_SOCKET_TOS, 0x10, 5);
        ended(&mut worker, 5).expect("it is set");
        assert_eq!(worker.batch().socket_option(far, sys::QUOIT_SOCKET_TOS), Ok(0x10));
        let wrong = worker.batch().socket_option(far, sys::QUOIT_SOCKET_NODELAY);
        assert_eq!(wrong, Err(Error::ARGUMENT), "that is of streams");
        let group = [239, 255, 78, 9].into();
        worker.batch().leave_multicast(far, group, 1, 6);
        assert_eq!(ended(&mut worker, 6).expect_err("it has not joined").name(), "EADDRNOTAVAIL");
        worker.batch().join_multicast(far, group, 1, 7);
        worker.batch().leave_multicast(far, group, 1, 8);
        ended(&mut worker, 8).expect("it had joined");
    });
}

#[test]
fn channels_hold_what_has_no_room_back() {
    on_each_driver(|runtime| {
        let mut here = runtime.worker().build().expect("a worker");
        let mut there = runtime.worker().build().expect("a worker");
        here.batch().channel(2, sys::QUOIT_CHANNEL_MANY_TO_ONE, 1);
        let channel = ended(&mut here, 1).expect("a channel");
        let message = |word| Message { word1: word, word2: -(word as i64), tag: 7, user_data: 0 };
        for word in 0..4 {
            there.batch().channel_send(channel, message(word), 10 + word);
        }
        ended(&mut there, 11).expect("there is room for two");
        there.batch().cancel_by_data(sys::QUOIT_OP_CHANNEL_SEND, 12, 0);
        assert_eq!(ended(&mut there, 12), Err(Error::CANCELED), "the third has none");
        here.batch().channel_recv(channel, 2);
        here.batch().channel_recv(channel, 2);
        let mut messages = Vec::new();
        while messages.len() < 3 {
            let batch = here.turn(Some(Duration::from_secs(60))).expect("a turn");
            messages.extend(batch.into_iter().filter_map(|event| event.message()));
            // What gets room there is told here, and comes.
            there.turn_nb().expect("a turn");
        }
        assert_eq!(messages, [0, 1, 3].map(|word| Message { user_data: 2, ..message(word) }));
        here.batch().close(channel, 3);
        let end = until(&mut here, |event| event.eof().then(|| (event.kind(), event.message())));
        assert_eq!(end, (Kind::ChannelRecv, None));
    });
}
