// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams as readers and writers of futures-io.

mod common;

use common::{on_each_driver, pattern, run, TempDir};
use futures_util::io::{copy, AsyncReadExt, AsyncWriteExt};
use quoit::net::{Stream, TcpListener, TcpStream, UnixListener, UnixStream};
use quoit::{spawn, Error, Result};

#[test]
fn copies_both_ways() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            // Not more: read_to_end clears all the room that it has whenever it must wait.
            const SIZE: usize = 2 << 20;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let addr = listener.local_addr()?;
            let echo = spawn(async move {
                let (from, mut to) = listener.accept().await?.into_inner().split();
                let count = copy(from, &mut to).await?;
                to.close().await?;
                Result::Ok(count)
            });
            let (mut from, mut to) = AsyncReadExt::split(TcpStream::connect(addr).await?);
            let bytes = pattern(2, SIZE);
            let sent = bytes.clone();
            let writing = spawn(async move {
                // Pieces of every size, far more than may be under way.
                let (mut at, mut size) = (0, 1);
                while at < sent.len() {
                    let end = sent.len().min(at + size);
                    to.write_all(&sent[at..end]).await?;
                    (at, size) = (end, size * 5 % 300_007);
                }
                to.flush().await?;
                to.close().await?;
                Result::Ok(())
            });
            let mut back = Vec::new();
            from.read_to_end(&mut back).await?;
            assert_eq!(back.len(), SIZE);
            assert!(back == bytes, "bytes changed");
            writing.await??;
            assert_eq!(echo.await??, SIZE as u64);
            Result::Ok(())
        });
    });
}

#[test]
fn unix_sockets_and_shared_streams() {
    let folder = TempDir::new("futures-io");
    on_each_driver(|runtime| {
        let path = folder.0.join(runtime.driver().name());
        run(runtime.worker(), async {
            let listener = UnixListener::bind(&path).await?;
            let mut near = UnixStream::connect(&path).await?;
            let far: Stream = listener.accept().await?.into();
            near.write_all(b"through the trait, ").await?;
            // Sends of both kinds keep their order.
            Stream::write_all(&near, "and around it").await?;
            let mut bytes = [0; 32];
            (&far).read_exact(&mut bytes).await?;
            assert_eq!(&bytes, b"through the trait, and around it");
            AsyncWriteExt::write_all(&mut &far, b"ok").await?;
            assert!(near.read_until_len(&mut Vec::new(), 2).await?);
            Result::Ok(())
        });
    });
}

#[test]
fn errors_are_told() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut near = TcpStream::connect(listener.local_addr()?).await?;
            listener.accept().await?.into_inner().abort().await?;
            let bytes = pattern(1, 1 << 20);
            // What was taken before the end was known is told by a later call.
            let error = loop {
                if let Err(error) = near.write_all(&bytes).await {
                    break error;
                }
            };
            assert!(near.write(b"more").await.is_err() && near.flush().await.is_err(), "it stays so");
            let name = Error::from(error).name();
            assert!(["ECONNRESET", "EPIPE"].contains(&name), "the error was {name}");
            Result::Ok(())
        });
    });
}
