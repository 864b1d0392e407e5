// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures may be dropped at any time: each kind of operation, before its first turn, while it is under way, and when it is
//! done. Afterwards nothing is left: no operation, no object, no memory of ours in use.

mod common;

use common::{on_each_driver, pattern, TempDir};
use quoit::fs::{Dir, File};
use quoit::net::{Listener, Stream};
use quoit::{rt, time, OpenOptions, Result};
use std::future::Future;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Polls a future once, then goes through the worker so many times, then drops it. True if it was done by then.
async fn drop_after<F: Future>(turns: u32, future: F) -> bool {
    let mut future = pin!(future);
    let mut done = false;
    let mut poll_once = async || {
        std::future::poll_fn(|context| {
            if !done {
                done = future.as_mut().poll(context).is_ready();
            }
            Poll::Ready(())
        })
        .await
    };
    poll_once().await;
    for _ in 0..turns {
        rt::nop().await.expect("the worker turns");
        poll_once().await;
    }
    done
}

/// Dropped at once, after one to three turns, and after enough of them to be done if it can be.
const TURNS: [u32; 6] = [0, 1, 2, 3, 10, 0];

async fn pair() -> Result<(Stream, Stream)> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    let near = Stream::connect(listener.local_addr()?).await?;
    Ok((near, listener.accept().await?))
}

/// Waits until the worker has nothing but what this needs itself.
async fn nothing_left(what: &str, objects: u64) {
    let worker = rt::worker();
    for _ in 0..2000 {
        let stats = worker.stats().expect("counters");
        // Our own sleep is one operation and one object.
        if stats.ops_live <= 1 && stats.objects_live <= objects + 1 && stats.buffers_kept == 0 {
            return;
        }
        time::sleep(Duration::from_millis(5)).await.expect("a timer");
    }
    let stats = worker.stats().expect("counters");
    panic!(
        "after {what}: {} operations, {} objects (at most {objects} expected), {} kept buffers are left",
        stats.ops_live, stats.objects_live, stats.buffers_kept
    );
}

/// Runs a case for each number of turns, then checks that nothing is left.
fn case<F>(name: &str, body: impl Fn(u32) -> F)
where
    F: Future<Output = Result<()>>,
{
    on_each_driver(|runtime| {
        let mut executor =
            runtime.worker().close_timeout(Duration::from_millis(200)).executor().expect("an executor");
        let outcome = executor.block_on(async {
            let before = rt::worker().stats()?.objects_live;
            for _ in 0..5 {
                for turns in TURNS {
                    body(turns).await?;
                }
            }
            nothing_left(name, before).await;
            // And the worker works.
            let (near, far) = pair().await?;
            near.send(pattern(1, 5000)).await.0?;
            let mut count = 0;
            while count < 5000 {
                count += far.recv().await?.expect("bytes").len();
            }
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn nop() {
    case("nop", |turns| async move {
        drop_after(turns, rt::nop()).await;
        Ok(())
    });
}

#[test]
fn sleep_and_interval() {
    case("sleep", |turns| async move {
        assert!(!drop_after(turns, time::sleep(Duration::from_secs(1000))).await);
        drop_after(turns, time::sleep(Duration::ZERO)).await;
        let mut interval = time::interval(Duration::from_millis(1));
        drop_after(turns, interval.tick()).await;
        Ok(())
    });
}

#[test]
fn listen() {
    case("listen", |turns| async move {
        drop_after(turns, Listener::bind("127.0.0.1:0")).await;
        Ok(())
    });
}

#[test]
fn accept_and_connect() {
    case("accept", |turns| async move {
        let listener = Listener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let connecting = rt::spawn(async move { drop_after(turns, Stream::connect(addr)).await });
        drop_after(turns, listener.accept()).await;
        connecting.await?;
        Ok(())
    });
}

#[test]
fn recv() {
    case("recv", |turns| async move {
        let (near, far) = pair().await?;
        assert!(!drop_after(turns, far.recv()).await);
        near.send(pattern(1, 100_000)).await.0?;
        drop_after(turns, far.recv()).await;
        Ok(())
    });
}

#[test]
fn send_that_is_stuck() {
    let bytes: Arc<[u8]> = Arc::from(pattern(2, 32 << 20));
    case("send", |turns| {
        let bytes = Arc::clone(&bytes);
        async move {
            let (near, far) = pair().await?;
            // More than the sockets hold, and nobody reads: the kernel has our memory when the futures are dropped.
            let stuck = near.send(bytes);
            let queued = near.send_many(vec![pattern(3, 1000), pattern(4, 100_000)]);
            assert!(!drop_after(turns, stuck).await);
            assert!(!drop_after(0, queued).await);
            assert_eq!(near.send("more").await.0, Err(quoit::Error::BUSY), "not before it is settled");
            drop_after(turns, near.shutdown(Shutdown::Write)).await;
            near.abort().await?;
            drop(far);
            Ok(())
        }
    });
    assert_eq!(Arc::strong_count(&bytes), 1, "each send let go of the memory");
}

#[test]
fn send_of_a_lease() {
    case("send of a lease", |turns| async move {
        let (near, far) = pair().await?;
        near.send(pattern(1, 1500)).await.0?;
        let lease = far.recv().await?.expect("bytes");
        drop_after(turns, far.send(lease)).await;
        Ok(())
    });
}

#[test]
fn close_and_abort() {
    case("close", |turns| async move {
        let (near, far) = pair().await?;
        near.send(pattern(1, 1500)).await.0?;
        drop_after(turns, near.close(None)).await;
        drop_after(turns, far.abort()).await;
        Ok(())
    });
}

#[test]
fn files() {
    let folder = TempDir::new("cancel");
    std::fs::write(folder.0.join("file"), pattern(9, 1 << 20)).expect("a file can be written");
    let path = &folder.0;
    case("files", |turns| async move {
        drop_after(turns, Dir::open(path)).await;
        let directory = Dir::open(path).await?;
        drop_after(turns, directory.open_file("file")).await;
        drop_after(turns, directory.open_file("missing")).await;
        let options = OpenOptions::new().read().write();
        let file = directory.open_with("file", options).await?;
        drop_after(turns, file.read(1 << 20, 0)).await;
        drop_after(turns, file.read_into(Vec::with_capacity(1 << 20), 0)).await;
        drop_after(turns, file.write(pattern(9, 1 << 20), 0)).await;
        drop_after(turns, file.sync(true)).await;
        drop_after(turns, File::open(path.join("file"))).await;
        Ok(())
    });
}

#[test]
fn poll() {
    case("poll", |turns| async move {
        let (reader, mut writer) = std::os::unix::net::UnixStream::pair()?;
        assert!(!drop_after(turns, rt::ready(reader.as_fd(), quoit::sys::QUOIT_POLL_IN)).await);
        std::io::Write::write_all(&mut writer, b"x")?;
        drop_after(turns, rt::ready(reader.as_fd(), quoit::sys::QUOIT_POLL_IN)).await;
        Ok(())
    });
}

#[test]
fn offload() {
    let count = Arc::new(AtomicU64::new(0));
    case("offload", |turns| {
        let count = Arc::clone(&count);
        async move {
            let held = Arc::clone(&count);
            let work = rt::unblock(move || {
                std::thread::sleep(Duration::from_millis(2));
                held.fetch_add(1, Ordering::Relaxed)
            });
            drop_after(turns, work).await;
            Ok(())
        }
    });
    assert_eq!(Arc::strong_count(&count), 1, "every closure was dropped, run or not");
}

#[test]
fn tasks() {
    case("tasks", |turns| async move {
        let (near, far) = pair().await?;
        let far = Rc::new(far);
        let held = Rc::clone(&far);
        let task = rt::spawn(async move { held.recv().await.map(|_| ()) });
        for _ in 0..turns {
            rt::nop().await?;
        }
        task.abort();
        assert!(task.is_finished());
        assert_eq!(Rc::strong_count(&far), 1, "the task's future was dropped");
        assert!(task.await.expect_err("it was aborted").is_cancelled());
        drop(near);
        Ok(())
    });
}

#[test]
fn the_executor_itself() {
    on_each_driver(|runtime| {
        let held = Arc::new(());
        let mut executor = runtime.worker().executor().expect("an executor");
        let inside = Arc::clone(&held);
        let started = executor.block_on(async move {
            let (near, far) = pair().await?;
            rt::spawn(async move {
                let _held = inside;
                // Stuck for good: nobody reads.
                near.send(pattern(2, 32 << 20)).await.0?;
                drop(far);
                Result::Ok(())
            });
            rt::spawn(time::sleep(Duration::from_secs(1000)));
            rt::nop().await
        });
        started.expect("the executor runs").expect("no error");
        drop(executor);
        assert_eq!(Arc::strong_count(&held), 1, "the tasks were dropped");
    });
}
