// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peers: plain sockets that never wait.

use crate::ledger::{fault, Flow, Totals};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

extern "C" {
    fn setsockopt(fd: i32, level: i32, name: i32, value: *const i32, len: u32) -> i32;
}

const SOL_SOCKET: i32 = 1;
const SO_LINGER: i32 = 13;

fn set(fd: RawFd, name: i32, value: &[i32]) {
    // SAFETY: value is that many readable bytes, and the descriptor is open.
    let done = unsafe { setsockopt(fd, SOL_SOCKET, name, value.as_ptr(), size_of_val(value) as u32) };
    if done != 0 {
        fault("setsockopt");
    }
}

pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The other end of a stream.
pub struct Peer {
    socket: Option<Socket>,
    /// It has seen the stream's end; it sends no more.
    pub ended: bool,
    pub fin: bool,
}

impl Peer {
    fn new(socket: Socket) -> Peer {
        match &socket {
            Socket::Tcp(socket) => socket.set_nonblocking(true),
            Socket::Unix(socket) => socket.set_nonblocking(true),
        }
        .unwrap_or_else(|_| fault("non-blocking"));
        Peer { socket: Some(socket), ended: false, fin: false }
    }

    /// None if nobody listens.
    pub fn dial(addr: &str) -> Option<Peer> {
        let socket = match addr.strip_prefix("unix:") {
            Some(path) => Socket::Unix(UnixStream::connect(path).ok()?),
            None => Socket::Tcp(TcpStream::connect(addr).ok()?),
        };
        Some(Peer::new(socket))
    }

    pub fn gone(&self) -> bool {
        self.socket.is_none()
    }

    /// The address that it is known by at the other end, if it has one.
    pub fn is_at(&self, addr: &str) -> bool {
        match &self.socket {
            Some(Socket::Tcp(socket)) => socket.peer_addr().is_ok_and(|at| at.to_string() == addr),
            _ => true,
        }
    }

    /// How many of the bytes were taken.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let written = match &mut self.socket {
            _ if self.fin => return 0,
            Some(Socket::Tcp(socket)) => socket.write(bytes),
            Some(Socket::Unix(socket)) => socket.write(bytes),
            None => return 0,
        };
        match written {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.fin = true;
                0
            }
        }
    }

    /// What is there, up to `most` bytes, into the flow; nothing may come without one.
    pub fn recv(&mut self, mut flow: Option<&mut Flow>, most: usize, totals: &Totals) {
        let mut left = most;
        let mut buffer = [0; 16_384];
        while left > 0 && !self.ended {
            let room = left.min(buffer.len());
            let read = match &mut self.socket {
                Some(Socket::Tcp(socket)) => socket.read(&mut buffer[..room]),
                Some(Socket::Unix(socket)) => socket.read(&mut buffer[..room]),
                None => return,
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    let Some(flow) = flow.as_mut() else {
                        fault("bytes on a connection that nobody accepted")
                    };
                    flow.came(&buffer[..count], totals);
                    left -= count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.ended = true,
            }
        }
    }

    pub fn end(&mut self) {
        match &self.socket {
            Some(Socket::Tcp(socket)) => socket.shutdown(Shutdown::Write).ok(),
            Some(Socket::Unix(socket)) => socket.shutdown(Shutdown::Write).ok(),
            None => None,
        };
        self.fin = true;
    }

    /// On a Unix socket it is a close.
    pub fn reset(&mut self) {
        if let Some(Socket::Tcp(socket)) = &self.socket {
            set(socket.as_raw_fd(), SO_LINGER, &[1, 0]);
        }
        self.socket = None;
    }

    pub fn close(&mut self) {
        self.socket = None;
    }
}

pub enum Plain {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Plain {
    pub fn bind(addr: &str) -> (Plain, String) {
        match addr.strip_prefix("unix:") {
            Some(path) => {
                let listener = UnixListener::bind(path).unwrap_or_else(|_| fault("bind"));
                listener.set_nonblocking(true).unwrap_or_else(|_| fault("non-blocking"));
                (Plain::Unix(listener), addr.to_string())
            }
            None => {
                let listener = TcpListener::bind(addr).unwrap_or_else(|_| fault("bind"));
                listener.set_nonblocking(true).unwrap_or_else(|_| fault("non-blocking"));
                let addr = listener.local_addr().unwrap_or_else(|_| fault("local address")).to_string();
                (Plain::Tcp(listener), addr)
            }
        }
    }

    pub fn accept(&self) -> Option<Peer> {
        match self {
            Plain::Tcp(listener) => listener.accept().ok().map(|(socket, _)| Peer::new(Socket::Tcp(socket))),
            Plain::Unix(listener) => {
                listener.accept().ok().map(|(socket, _)| Peer::new(Socket::Unix(socket)))
            }
        }
    }
}

pub fn open_fds() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}
