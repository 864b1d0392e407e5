// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams as readers and writers of tokio, without its runtime.

mod common;

use common::{on_each_driver, pattern, run, TempDir};
use quoit::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use quoit::{spawn, Result};
use tokio::io::{copy, copy_bidirectional, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

#[test]
fn echoes() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const SIZE: usize = 8 << 20;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let addr = listener.local_addr()?;
            let echo = spawn(async move {
                let (mut from, mut to) = listener.accept().await?.into_inner().split();
                let count = copy(&mut from, &mut to).await?;
                AsyncWriteExt::shutdown(&mut to).await?;
                Result::Ok(count)
            });
            let (mut from, mut to) = tokio::io::split(TcpStream::connect(addr).await?);
            let bytes = pattern(3, SIZE);
            let sent = bytes.clone();
            let writing = spawn(async move {
                to.write_all(&sent).await?;
                to.shutdown().await?;
                Result::Ok(())
            });
            let mut back = Vec::new();
            from.read_to_end(&mut back).await?;
            assert!(back == bytes, "bytes changed: {} of {SIZE} came", back.len());
            writing.await??;
            assert_eq!(echo.await??, SIZE as u64);
            Result::Ok(())
        });
    });
}

#[test]
fn lines_through_a_proxy() {
    let folder = TempDir::new("tokio-io");
    on_each_driver(|runtime| {
        let path = folder.0.join(runtime.driver().name());
        run(runtime.worker(), async {
            let behind = UnixListener::bind(&path).await?;
            let front = TcpListener::bind("127.0.0.1:0").await?;
            let addr = front.local_addr()?;
            let server = spawn(async move {
                let mut stream = BufReader::new(behind.accept().await?);
                let mut line = String::new();
                while stream.read_line(&mut line).await? > 0 {
                    stream.write_all(line.to_uppercase().as_bytes()).await?;
                    line.clear();
                }
                stream.shutdown().await?;
                Result::Ok(())
            });
            let proxy = spawn(async move {
                let mut client = front.accept().await?;
                let mut server = UnixStream::connect(&path).await?;
                Result::Ok(copy_bidirectional(&mut client, &mut server).await?)
            });
            let mut client = BufReader::new(TcpStream::connect(addr).await?);
            let mut answer = String::new();
            for number in 0..100 {
                client.write_all(format!("line {number}\n").as_bytes()).await?;
                answer.clear();
                client.read_line(&mut answer).await?;
                assert_eq!(answer, format!("LINE {number}\n"));
            }
            AsyncWriteExt::shutdown(&mut client).await?;
            assert_eq!(client.read_line(&mut answer).await?, 0, "the end comes through");
            server.await??;
            let (there, back) = proxy.await??;
            assert_eq!(there, back);
            Result::Ok(())
        });
    });
}
