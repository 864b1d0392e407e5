// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: every driver that this machine has, a limit of time, bytes that can be checked.
#![allow(dead_code)]

use quoit::{time, Driver, Error, Result, Runtime, WorkerBuilder, WorkerHandle};
use std::future::{pending, poll_fn, Future};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs a test once per driver. With QUOIT_DRIVER set, that one only; it must then be the one that runs.
pub fn on_each_driver(test: impl Fn(&Runtime)) {
    let all = [Driver::UringDefer, Driver::UringCoop, Driver::UringPlain, Driver::Epoll];
    let forced = std::env::var("QUOIT_DRIVER").ok().and_then(|name| name.parse::<Driver>().ok());
    let mut ran = 0;
    for driver in all {
        match forced {
            Some(Driver::Uring) if driver == Driver::Epoll => continue,
            Some(Driver::Auto | Driver::Uring) | None => {}
            Some(other) if other != driver => continue,
            Some(_) => {}
        }
        let _limit = Limit::new(120);
        match Runtime::builder().driver(driver).build() {
            Ok(runtime) => {
                assert_eq!(runtime.driver(), driver, "a forced driver is the one that runs");
                test(&runtime);
                ran += 1;
            }
            Err(error) if forced.is_none() => skipped(&format!("driver {driver}: {error}: {}", error.hint())),
            Err(error) => panic!("{driver} was asked for and cannot be had: {error}"),
        }
    }
    assert!(ran > 0, "no driver ran");
}

/// Runs a future on an executor of its own. It must end well, and in time.
pub fn run<T>(options: WorkerBuilder, future: impl Future<Output = Result<T>>) -> T {
    let mut executor = options.executor().expect("an executor");
    let limited = executor.block_on(async { time::timeout(Duration::from_secs(60), future).await });
    limited.expect("the executor runs").expect("it ends in time").expect("it ends well")
}

/// Polls a future once and drops it; its output if it was ready.
pub async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Says that something was not tested, past the test runner's capture of what tests print.
pub fn skipped(what: &str) {
    let name = std::thread::current().name().unwrap_or("test").to_string();
    writeln!(std::io::stderr(), "skipped in {name}: {what}").ok();
}

/// Ends the process if it lives longer than its seconds, so that a hang is a failure.
pub struct Limit(Arc<AtomicBool>);

impl Limit {
    pub fn new(seconds: u64) -> Limit {
        let done = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&done);
        let name = std::thread::current().name().unwrap_or("test").to_string();
        std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end {
                if watched.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
            eprintln!("{name} took longer than {seconds} s");
            std::process::abort();
        });
        Limit(done)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Options for a worker whose pool is small enough to run dry.
pub fn small_pool(runtime: &Runtime) -> WorkerBuilder {
    runtime.worker().recv_buffers(16).recv_buffer_size(1024)
}

/// Bytes that differ by position and by seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Sends bytes to an echo with plain blocking sockets and checks what comes back, both at once.
pub fn check_echo(port: u16, bytes: &[u8]) {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the echo accepts");
    check_echo_on(&stream, bytes);
}

pub fn check_echo_on(stream: &TcpStream, bytes: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    std::thread::scope(|scope| {
        scope.spawn(|| (&mut &*stream).write_all(bytes).expect("the echo takes all"));
        let mut back = vec![0; bytes.len()];
        (&mut &*stream).read_exact(&mut back).expect("the echo answers");
        assert!(back == bytes, "an echo of {} bytes differs", bytes.len());
    });
}

/// Turns a condition into a wait: true as soon as it holds, false after the limit.
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::yield_now();
    }
}

/// A folder of its own for a test, removed at the end.
pub struct TempDir(pub std::path::PathBuf);

impl TempDir {
    pub fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("quoit-rust-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A worker on a thread of its own, whose executor runs what it is given.
pub struct Other {
    pub handle: WorkerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Other {
    pub fn new(runtime: &Runtime) -> Other {
        let runtime = runtime.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut executor = runtime.worker().executor().expect("an executor");
            tell.send(executor.handle()).expect("the maker waits");
            let end = executor.block_on(pending::<()>());
            assert_eq!(end, Err(Error::CLOSED), "it was stopped");
        });
        Other { handle: told.recv().expect("the thread begins"), thread: Some(thread) }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.handle.stop().expect("a running worker can be stopped");
        let ended = self.thread.take().expect("joined once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the other worker panicked");
    }
}

/// Runs a test beside another worker: with ordinary batches, and with one event a turn.
pub fn with_other(test: impl AsyncFn(&Other) -> Result<()>) {
    on_each_driver(|runtime| {
        for events_max in [256, 1] {
            let other = Other::new(runtime);
            run(runtime.worker().events_max(events_max).grease(), test(&other));
        }
    });
}
