// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of one kind of address, their halves, and reading into memory of the caller.

mod common;

use common::{on_each_driver, pattern, run, TempDir};
use quoit::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use quoit::{spawn, time, Error, ListenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn tcp_by_its_addresses() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = TcpListener::bind_with("127.0.0.1:0", ListenOptions::new().backlog(8)).await?;
            let addr = listener.local_addr()?;
            assert!(addr.ip().is_loopback() && addr.port() != 0);
            let near = TcpStream::connect(addr).await?;
            let far = listener.accept().await?;
            assert_eq!(near.peer_addr()?, addr);
            assert_eq!((far.local_addr()?, far.peer_addr()?), (addr, near.local_addr()?));
            near.write_all("over TCP").await?;
            let mut bytes = [0; 64];
            assert_eq!(far.read(&mut bytes).await?, 8);
            assert_eq!(&bytes[..8], b"over TCP");
            let path = TcpStream::connect("unix:/tmp/never").await.expect_err("that is no address of TCP");
            assert_eq!(path, Error::ARGUMENT);
            assert_eq!(TcpListener::bind("unix:@never").await.err(), Some(Error::ARGUMENT));
            Ok(())
        })
    });
}

#[test]
fn unix_by_its_paths() {
    let folder = TempDir::new("streams");
    let path = folder.0.join("socket");
    let hidden = format!("\0quoit-rust-{}", std::process::id());
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            for path in [path.as_path(), Path::new(&hidden)] {
                let listener = UnixListener::bind_with(path, ListenOptions::new().unlink()).await?;
                assert_eq!(listener.local_addr()?.to_path().as_deref(), Some(path));
                let near = UnixStream::connect(path).await?;
                let far = listener.accept().await?;
                assert_eq!(near.peer_addr()?.to_path().as_deref(), Some(path));
                assert_eq!(far.peer_addr()?.to_path(), None, "the client has no name");
                near.write_all("over a path").await?;
                let mut bytes = Vec::new();
                assert!(far.read_until_len(&mut bytes, 11).await?);
                assert_eq!(bytes, b"over a path");
            }
            let long = "x".repeat(108);
            for wrong in ["", "a\0b", &long] {
                assert_eq!(UnixStream::connect(wrong).await.err(), Some(Error::ARGUMENT), "{wrong:?}");
            }
            Ok(())
        })
    });
}

#[test]
fn halves_in_two_tasks() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const SIZE: usize = 4 << 20;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let near = TcpStream::connect(listener.local_addr()?).await?;
            let (mut from, mut to) = near.into_inner().split();
            let far = listener.accept().await?.into_inner();
            let echo = spawn(async move {
                while let Some(lease) = far.recv().await? {
                    far.send(lease).await.0?;
                }
                // The other half has ended; ours sends on until the close, which is the peer's end.
                far.write_all("bye").await
            });
            let bytes = pattern(9, SIZE);
            let sent = bytes.clone();
            let writing = spawn(async move { to.write_all(sent).await.map(|()| drop(to)) });
            let mut back = Vec::new();
            assert!(from.read_until_len(&mut back, SIZE).await?);
            assert!(back == bytes, "bytes changed");
            writing.await??;
            assert!(
                !from.read_until_len(&mut back, usize::MAX).await?,
                "the dropped half was the peer's end"
            );
            assert_eq!(&back[SIZE..], b"bye");
            echo.await?
        })
    });
}

#[test]
fn halves_become_one_again() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut streams = Vec::new();
            for _ in 0..2 {
                let near = TcpStream::connect(listener.local_addr()?).await?;
                streams.push((near.into_inner().split(), listener.accept().await?));
            }
            let ((from, to), far) = streams.pop().expect("two");
            let ((other_from, other_to), _other_far) = streams.pop().expect("two");
            let whole = from.reunite(to)?;
            whole.write_all("whole").await?;
            let mut bytes = [0; 8];
            assert_eq!(far.read(&mut bytes).await?, 5, "no half was ended");
            let (from, to) = whole.split();
            assert_eq!(from.reunite(other_to).err(), Some(Error::ARGUMENT));
            drop((to, other_from));
            Ok(())
        })
    });
}

#[test]
fn reads_of_any_size() {
    on_each_driver(|runtime| {
        run(common::small_pool(runtime), async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let near = TcpStream::connect(listener.local_addr()?).await?;
            let far = listener.accept().await?;
            let bytes = pattern(4, 300_000);
            let sent = bytes.clone();
            let writing = spawn(async move { near.write_all(sent).await });
            assert_eq!(far.read(&mut []).await?, 0, "no room, nothing taken");
            let (mut back, mut size) = (Vec::new(), 1);
            while back.len() < bytes.len() {
                let mut piece = vec![0; size];
                let count = far.read(&mut piece).await?;
                assert!(count > 0, "the stream goes on");
                back.extend_from_slice(&piece[..count]);
                size = size * 3 % 5000 + 1;
            }
            assert!(back == bytes, "bytes changed");
            writing.await??;
            assert_eq!(far.read(&mut [0; 10]).await?, 0, "the end");
            Ok(())
        })
    });
}

#[test]
fn sleeping_until_a_time() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let time = Instant::now() + Duration::from_millis(5);
            time::sleep_until(time).await?;
            assert!(Instant::now() >= time, "it fired early");
            // One that has passed is over at once.
            time::sleep_until(time).await
        })
    });
}
