// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the executor.

mod common;

use common::{on_each_driver, pattern, TempDir};
use quoit::fs::{Dir, File};
use quoit::net::{Listener, Stream};
use quoit::{rt, Error, OpenOptions, Result};
use std::net::Shutdown;

#[test]
fn write_read_append_sync() {
    on_each_driver(|runtime| {
        let folder = TempDir::new(&format!("files-{}", runtime.driver()));
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let file = File::create(folder.0.join("file")).await?;
            let bytes = pattern(1, 3_000_000);
            let (written, back) = file.write(bytes, 0).await;
            assert_eq!((written?, back.len()), (3_000_000, 3_000_000));
            file.write("HEAD", 0).await.0?;
            file.append("TAIL").await.0?;
            file.sync(true).await?;
            file.sync(false).await?;
            assert_eq!(file.size()?, 3_000_004);

            let (read, bytes) = file.read_into(Vec::with_capacity(4), 0).await;
            assert_eq!((read?, &bytes[..]), (4, &b"HEAD"[..]));
            let mut bytes = Vec::with_capacity(100);
            bytes.extend_from_slice(b"behind ");
            let (read, bytes) = file.read_into(bytes, 3_000_000).await;
            assert_eq!((read?, &bytes[..]), (4, &b"behind TAIL"[..]));
            let mut back = Vec::new();
            loop {
                let chunk = file.read(256 * 1024, back.len() as u64).await?;
                if chunk.is_empty() {
                    break;
                }
                chunk.with(|bytes| back.extend_from_slice(bytes))?;
            }
            let mut expected = pattern(1, 3_000_000);
            expected[..4].copy_from_slice(b"HEAD");
            expected.extend_from_slice(b"TAIL");
            assert!(back == expected, "the file differs");
            assert!(std::fs::read(folder.0.join("file"))? == expected, "the file on disk differs");
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn errors_have_names() {
    on_each_driver(|runtime| {
        let folder = TempDir::new("errors");
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let directory = Dir::open(&folder.0).await?;
            assert_eq!(directory.open_file("missing").await.expect_err("no file").name(), "ENOENT");
            let exclusive = OpenOptions::new().write().create().exclusive().mode(0o600);
            let file = directory.open_with("once", exclusive).await?;
            assert_eq!(directory.open_with("once", exclusive).await.expect_err("there").name(), "EEXIST");
            assert_eq!(file.read(10, 0).await.expect_err("for writing only").name(), "EBADF");
            assert_eq!(Dir::open(folder.0.join("once")).await.expect_err("a file").name(), "ENOTDIR");
            let itself = directory.open_file(".").await?;
            assert_eq!(itself.read(10, 0).await.expect_err("a directory").name(), "EISDIR");
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn a_chunk_ends_with_its_turn() {
    on_each_driver(|runtime| {
        let folder = TempDir::new("chunk");
        std::fs::write(folder.0.join("file"), "twelve bytes").expect("a file can be written");
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let listener = Listener::bind("127.0.0.1:0").await?;
            let stream = Stream::connect(listener.local_addr()?).await?;
            let file = File::open(folder.0.join("file")).await?;
            let chunk = file.read(100, 0).await?;
            assert_eq!(chunk.to_vec()?, b"twelve bytes");
            rt::nop().await?;
            assert_eq!(chunk.with(|bytes| bytes.len()), Err(Error::STALE));
            assert_eq!(stream.send(chunk).await.0, Err(Error::STALE), "never other bytes");
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn a_file_goes_out_from_the_memory_it_was_read_into() {
    on_each_driver(|runtime| {
        let folder = TempDir::new("send");
        let bytes = pattern(4, 5_000_000);
        std::fs::write(folder.0.join("file"), &bytes).expect("a file can be written");
        let mut executor = runtime.worker().executor().expect("an executor");
        let back = executor.block_on(async {
            let listener = Listener::bind("127.0.0.1:0").await?;
            let near = Stream::connect(listener.local_addr()?).await?;
            let far = listener.accept().await?;
            let file = File::open(folder.0.join("file")).await?;
            let sending = rt::spawn(async move {
                let mut position = 0;
                loop {
                    let chunk = file.read(256 * 1024, position).await?;
                    if chunk.is_empty() {
                        break;
                    }
                    position += near.send(chunk).await.0? as u64;
                }
                near.shutdown(Shutdown::Write).await
            });
            let mut back = Vec::new();
            while let Some(lease) = far.recv().await? {
                back.extend_from_slice(&lease);
            }
            sending.await??;
            Result::Ok(back)
        });
        assert!(back.expect("the executor runs").expect("no error") == bytes, "the bytes differ");
    });
}
