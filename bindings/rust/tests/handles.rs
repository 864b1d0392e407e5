// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stale, foreign and made-up handles, given to every operation and call: a clear error, and nothing crashes.
//! QUOIT_HANDLE_TRIES says how many (default 20,000).

mod common;

use common::on_each_driver;
use quoit::sys;
use quoit::{Error, Handle, Kind, ListenOptions, Message, OpenOptions, Worker};
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A made-up handle may be that of another test's worker, so one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns until `done` is told, or fails.
fn turn_until(worker: &mut Worker, mut done: impl FnMut(&quoit::Batch<'_>) -> bool) {
    for _ in 0..10_000 {
        if done(&worker.turn(Some(Duration::from_secs(10))).expect("a turn")) {
            return;
        }
    }
    panic!("it does not end");
}

/// The live handles of a worker: listener, two streams, file, directory, timer.
struct Live {
    listener: Handle,
    near: Handle,
    far: Handle,
    file: Handle,
    directory: Handle,
}

fn live(worker: &mut Worker) -> Live {
    let mut live = Live {
        listener: Handle::NONE,
        near: Handle::NONE,
        far: Handle::NONE,
        file: Handle::NONE,
        directory: Handle::NONE,
    };
    worker.batch().listen("127.0.0.1:0", ListenOptions::new(), 1).expect("an address");
    worker.batch().open(Handle::NONE, b"/etc/passwd", OpenOptions::new().read(), 2);
    worker.batch().open(Handle::NONE, b"/etc", OpenOptions::new().read().directory(), 3);
    turn_until(worker, |batch| {
        for event in batch {
            let object = event.result().map(|_| event.object()).expect("it works");
            match (event.kind(), event.user_data()) {
                (Kind::Listen, _) => {
                    live.listener = object;
                    batch.accept(object, false, 4);
                    let addr = format!("127.0.0.1:{}", event.aux());
                    batch.connect(addr.as_str(), 5).expect("an address");
                }
                (Kind::Accept, _) => live.far = object,
                (Kind::Connect, _) => live.near = object,
                (Kind::Open, 2) => live.file = object,
                (Kind::Open, _) => live.directory = object,
                other => panic!("{other:?}"),
            }
        }
        let all = [live.listener, live.near, live.far, live.file, live.directory];
        all.iter().all(|handle| !handle.is_none())
    });
    live
}

/// A small generator of numbers: the same run every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A handle that is not that of a live object.
fn mutate(handle: Handle, numbers: &mut Numbers) -> Handle {
    let raw = handle.raw();
    Handle::from_raw(match numbers.next() % 7 {
        0 => raw.wrapping_add(1 << 24),
        1 => raw.wrapping_sub(1 << 24),
        2 => raw ^ (1 << 56),
        3 => raw ^ (1 << 48),
        4 => raw ^ 1 << (numbers.next() % 64),
        5 => raw.wrapping_add(1 + numbers.next() % 100),
        _ => numbers.next(),
    })
}

/// One operation of each kind that takes a handle, on a handle that is wrong.
fn misuse(worker: &Worker, number: u64, handle: Handle) {
    let batch = worker.batch();
    match number % 16 {
        0 => batch.accept(handle, number & 16 != 0, number),
        1 => batch.recv(handle, number),
        2 => batch.recv_pause(handle, number),
        3 => batch.recv_resume(handle, number),
        4 => batch.send(handle, b"bytes", number),
        5 => batch.send_quiet(handle, b"bytes", number),
        6 => batch.shutdown(handle, Shutdown::Both, number),
        7 => batch.close(handle, number),
        8 => batch.abort(handle, number),
        9 => batch.cancel(handle, 0, number),
        10 => batch.open(handle, b"passwd", OpenOptions::new().read(), number),
        11 => batch.read(handle, 100, 0, number),
        12 => batch.write(handle, b"bytes", Some(0), number),
        13 => batch.fsync(handle, true, number),
        14 => batch.post(handle, Message::default(), number),
        _ => batch.release(handle),
    }
}

#[test]
fn wrong_handles_are_errors() {
    let _alone = alone();
    let tries =
        std::env::var("QUOIT_HANDLE_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000u64);
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let mut other = runtime.worker().build().expect("another worker");
        let mine = live(&mut worker);
        let foreign = live(&mut other);
        let known: Vec<Handle> = [&mine, &foreign]
            .iter()
            .flat_map(|live| [live.listener, live.near, live.far, live.file, live.directory])
            .chain([worker.handle().handle(), other.handle().handle()])
            .collect();
        let mut numbers = Numbers(0x5eed);
        let (mut asked, mut refused) = (0, 0);
        while asked < tries {
            for _ in 0..256 {
                let mut handle = mutate(known[(numbers.next() % known.len() as u64) as usize], &mut numbers);
                // What hits a live object of ours by chance is no mistake.
                if known.contains(&handle) || handle.is_none() {
                    handle = Handle::from_raw(u64::MAX);
                }
                misuse(&worker, asked, handle);
                assert!(worker.batch().file_size(handle).is_err());
                assert!(worker.batch().local_addr(handle).is_err());
                assert!(worker.batch().peer_addr(handle).is_err());
                let _ = handle.kind();
                asked += 1;
            }
            refused += count_refusals(&mut worker);
        }
        while refused < asked {
            let batch = worker.turn(Some(Duration::from_secs(10))).expect("a turn");
            assert!(!batch.is_empty(), "{refused} of {asked} were refused");
            refused += refusals(&batch);
        }
        assert_eq!(refused, asked, "each wrong operation ends in one error");
        // The live objects have not noticed.
        worker.batch().recv(mine.far, 1);
        worker.batch().send_quiet(mine.near, b"alive", 2);
        turn_until(&mut worker, |batch| {
            batch.events().any(|event| event.kind() == Kind::Recv && event.data() == b"alive")
        });
    });
}

fn count_refusals(worker: &mut Worker) -> u64 {
    refusals(&worker.turn(Some(Duration::ZERO)).expect("a turn"))
}

fn refusals(batch: &quoit::Batch<'_>) -> u64 {
    let expected = [Error::STALE, Error::KIND, Error::WORKER, Error::HANDLE];
    for event in batch {
        let error = event.error().unwrap_or_else(|| panic!("{:?} of a wrong handle went well", event.kind()));
        assert!(expected.contains(&error), "{:?} ended with {error}", event.kind());
        assert!(!event.more());
    }
    batch.len() as u64
}

#[test]
fn handles_end_with_their_objects() {
    let _alone = alone();
    on_each_driver(|runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let mine = live(&mut worker);
        let handle = worker.handle();
        for object in [mine.listener, mine.near, mine.far, mine.file, mine.directory] {
            assert!(object.kind().is_some());
            worker.batch().abort(object, 1);
        }
        let mut closed = 0;
        turn_until(&mut worker, |batch| {
            closed += batch.events().filter(|event| event.kind() == Kind::Close).count();
            closed == 5
        });
        worker.batch().send(mine.near, b"late", 2);
        worker.batch().read(mine.file, 10, 0, 3);
        let mut ended = Vec::new();
        turn_until(&mut worker, |batch| {
            ended.extend(batch.events().filter_map(|event| event.error()));
            ended.len() == 2
        });
        assert_eq!(ended, [Error::STALE, Error::STALE]);
        drop(worker);
        for error in [handle.stop().err(), handle.stats().err(), handle.post(Message::default()).err()] {
            assert!(error.is_some(), "the worker is gone");
        }
    });
}

#[test]
fn kinds_are_read_from_handles() {
    assert_eq!(Handle::NONE.kind(), None);
    assert_eq!(Handle::from_raw(u64::MAX).kind(), None);
    assert_eq!(Error::STALE.name(), "QUOIT_E_STALE");
    assert_eq!(Error::from_status(-104).name(), "ECONNRESET");
    assert_eq!(std::io::Error::from(Error::from_status(-104)).raw_os_error(), Some(104));
    assert_eq!(Error::from(std::io::Error::from_raw_os_error(2)).name(), "ENOENT");
    assert_eq!(Error::KIND.class(), quoit::Class::Usage);
    assert_eq!(Error::STALE.class(), quoit::Class::Closed);
    assert_eq!(Error::CANCELED.class(), quoit::Class::Cancelled);
    assert!(!Error::DRIVER.hint().is_empty() && !Error::DRIVER.message().is_empty());
    assert_eq!(sys::QUOIT_E_STALE, Error::STALE.status());
}
