// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file server over async: `files HOST:PORT DIRECTORY [--driver D] [--buffers N] [--events N]`.
//!
//! A client sends `GET path` and a newline, as often as it likes; the answer is the length, a newline and the bytes, or `-1`, a
//! message and a newline. A file goes out in pieces, each sent from the memory it was read into, the next one read when the
//! last has left: a connection holds one piece, however large the file.

use quoit::fs::{Dir, File};
use quoit::net::{Listener, Stream};
use quoit::{rt, sys::QUOIT_POLL_IN, Error, Result};
use quoit_services::{farewell, listening, stop_signals, Args};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::rc::Rc;

const PIECE: u64 = 256 * 1024;
const LINE_MAX: usize = 4096;

struct Server {
    root: Dir,
    requests: Cell<u64>,
    bytes: Cell<u64>,
}

/// One connection: its requests, answered one after the other. What cannot be answered ends it.
async fn connection(server: Rc<Server>, stream: Stream) -> Result<()> {
    let mut line = Vec::new();
    while let Some(received) = stream.recv().await? {
        for &byte in received.iter() {
            match byte {
                b'\n' => answer(&server, &stream, &std::mem::take(&mut line)).await?,
                _ if line.len() < LINE_MAX => line.push(byte),
                _ => return refuse(&stream, "the request is too long").await,
            }
        }
    }
    Ok(())
}

async fn answer(server: &Server, stream: &Stream, line: &[u8]) -> Result<()> {
    server.requests.set(server.requests.get() + 1);
    let Some(path) = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("GET ")) else {
        return refuse(stream, "a request is GET and a path").await;
    };
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return refuse(stream, "the path leads out of the directory").await;
    }
    let opened = server.root.open_file(path).await;
    match opened.and_then(|file| file.size().map(|size| (file, size))) {
        Ok((file, size)) => send_file(server, stream, &file, size).await,
        Err(error) => refuse(stream, error.message()).await,
    }
}

async fn send_file(server: &Server, stream: &Stream, file: &File, size: u64) -> Result<()> {
    let mut position = 0;
    loop {
        // At least a byte is asked for, so that what cannot be read, as a directory, says so before the length is told.
        let want = (size - position).clamp(1, PIECE) as u32;
        let piece = match file.read(want, position).await {
            Err(error) if position == 0 => return refuse(stream, error.message()).await,
            other => other?,
        };
        // Sends start in the order of these calls, and both go to the kernel at once.
        let head = (position == 0).then(|| stream.send(format!("{size}\n")));
        let count = piece.len() as u64;
        let body = (count > 0).then(|| stream.send(piece));
        if let Some(head) = head {
            head.await.0?;
        }
        if let Some(body) = body {
            body.await.0?;
        }
        position += count;
        server.bytes.set(server.bytes.get() + count);
        if position >= size {
            return Ok(());
        }
        if count == 0 {
            // The file shrank, but its length was promised.
            return Err(Error::from_status(-5));
        }
    }
}

async fn refuse(stream: &Stream, message: &str) -> Result<()> {
    stream.send(format!("-1 {message}\n")).await.0.map(|_| ())
}

async fn accept(server: Rc<Server>, listener: Listener) -> Result<()> {
    loop {
        let stream = listener.accept().await?;
        rt::spawn(connection(Rc::clone(&server), stream));
    }
}

fn serve() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args = Args::read(&["HOST:PORT", "DIRECTORY"])?;
    let signals = stop_signals()?;
    let (runtime, worker) = args.runtime()?;
    let mut executor = worker.executor()?;
    let server = executor.block_on(async {
        let root = Dir::open(&args.positional[1]).await?;
        let server = Rc::new(Server { root, requests: Cell::new(0), bytes: Cell::new(0) });
        let listener = Listener::bind(&args.positional[0]).await?;
        listening(listener.local_addr()?)?;
        rt::spawn(accept(Rc::clone(&server), listener));
        rt::ready(signals.as_fd(), QUOIT_POLL_IN).await?;
        quoit::Result::Ok(server)
    })??;
    Ok(farewell(&runtime, server.requests.get(), server.bytes.get(), &executor.stats()?)?)
}

fn main() -> ExitCode {
    quoit_services::main(serve)
}
