// SPDX-License-Identifier: MIT OR Apache-2.0
//! What listen, bind, open and post take.

use crate::addr::Addr;
use crate::handle::Handle;
use crate::ops::op;
use quoit_sys as sys;

/// Switches, each a bit of `flags`.
macro_rules! flags {
    ($options:ident $($(#[$doc:meta])* $name:ident => $flag:ident)*) => {
        impl $options {
            $($(#[$doc])*
            pub fn $name(mut self) -> Self {
                self.flags |= sys::$flag;
                self
            })*
        }
    };
}

/// Options of a listener.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListenOptions {
    pub(crate) backlog: u32,
    flags: u32,
    streams_max: u32,
    skew_percent: u32,
}

flags! { ListenOptions
    /// Several sockets share the port: one listener per worker.
    reuse_port => QUOIT_LISTEN_REUSEPORT
    /// IPv6 only; else a listener on `[::]` takes IPv4 too.
    v6_only => QUOIT_LISTEN_V6ONLY
    /// Leave Nagle's algorithm on for accepted streams.
    delay => QUOIT_LISTEN_DELAY
    /// Remove an old Unix socket file at this path first.
    unlink => QUOIT_LISTEN_UNLINK
    /// Also an address that no interface has yet.
    freebind => QUOIT_LISTEN_FREEBIND
    /// Accept a TCP connection when its first bytes are there, or after about a second; `TcpListener::set_defer_accept` sets
    /// another time.
    defer_accept => QUOIT_LISTEN_DEFER_ACCEPT
}

impl ListenOptions {
    /// All defaults: a backlog of 1024, no delay on accepted streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many connections may wait to be accepted.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Most streams at one time; while they are there, connections wait in the backlog.
    pub fn streams_max(mut self, streams: u32) -> Self {
        self.streams_max = streams;
        self
    }

    /// With [`reuse_port`](Self::reuse_port) on each worker of the runtime: one that has more than so many percent more
    /// streams than the one with the fewest hands new ones over to that one.
    pub fn skew_percent(mut self, percent: u32) -> Self {
        self.skew_percent = percent;
        self
    }

    pub(crate) fn raw(self) -> sys::quoit_listen_options {
        sys::quoit_listen_options {
            struct_size: size_of::<sys::quoit_listen_options>() as u32,
            flags: self.flags,
            streams_max: self.streams_max,
            skew_percent: self.skew_percent,
            reserved: 0,
        }
    }
}

/// Options of a datagram socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct BindOptions {
    flags: u32,
    peer: Option<Addr>,
    pub(crate) receive_max: u32,
}

flags! { BindOptions
    /// Several sockets share the port: one per worker.
    reuse_port => QUOIT_BIND_REUSEPORT
    /// IPv6 only; else a socket on `[::]` takes IPv4 too.
    v6_only => QUOIT_BIND_V6ONLY
    /// It may send to broadcast addresses.
    broadcast => QUOIT_BIND_BROADCAST
    /// Remove an old Unix socket file at this path first.
    unlink => QUOIT_BIND_UNLINK
    /// Each datagram tells where it was sent to and by which interface it came.
    packet_info => QUOIT_BIND_PKTINFO
    /// The kernel may join datagrams of one peer, which then come as one with a
    /// [segment size](crate::net::Datagram::segment_size).
    join_segments => QUOIT_BIND_GRO
}

impl BindOptions {
    /// All defaults: not connected.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn has_packet_info(self) -> bool {
        self.flags & sys::QUOIT_BIND_PKTINFO != 0
    }

    /// Longest datagram that a [`UdpSocket`](crate::net::UdpSocket) receives whole, up to 131072 bytes. By default it is what a
    /// receive buffer has room for, at least 1500; more takes memory of its own per datagram.
    pub fn receive_max(mut self, bytes: u32) -> Self {
        self.receive_max = bytes;
        self
    }

    /// Connected: it sends to this peer, and takes what that one sends only.
    pub fn peer(mut self, peer: Addr) -> Self {
        self.peer = Some(peer);
        self
    }

    pub(crate) fn raw(self) -> sys::quoit_bind_options {
        sys::quoit_bind_options {
            struct_size: size_of::<sys::quoit_bind_options>() as u32,
            flags: self.flags,
            reserved: 0,
            peer: self.peer.unwrap_or(Addr::empty()).raw,
        }
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    pub(crate) flags: u32,
    pub(crate) mode: u32,
}

flags! { OpenOptions
    /// For reading.
    read => QUOIT_OPEN_READ
    /// For writing.
    write => QUOIT_OPEN_WRITE
    /// Make the file if it is not there.
    create => QUOIT_OPEN_CREATE
    /// Fail if the file is there.
    exclusive => QUOIT_OPEN_EXCLUSIVE
    /// Empty the file.
    truncate => QUOIT_OPEN_TRUNCATE
    /// Every write goes to the end.
    append => QUOIT_OPEN_APPEND
    /// A directory, from which other paths are opened.
    directory => QUOIT_OPEN_DIRECTORY
    /// Fail if the last part of the path is a symbolic link.
    no_follow => QUOIT_OPEN_NOFOLLOW
    /// Writes are durable when they end.
    sync => QUOIT_OPEN_SYNC
}

impl OpenOptions {
    /// Nothing chosen yet; a new file gets the mode 0o644 less the umask.
    pub fn new() -> Self {
        OpenOptions { flags: 0, mode: 0o644 }
    }

    /// The permissions of a new file, less the umask.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What one worker tells another: three words and the number that the receiver knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Message {
    /// The event's `value` there.
    pub word1: u64,
    /// The event's `result` there.
    pub word2: i64,
    /// The event's `aux` there.
    pub tag: u32,
    /// The event's `user_data` there.
    pub user_data: u64,
}

impl Message {
    pub(crate) fn op(self, worker: Handle, user_data: u64) -> sys::quoit_op {
        sys::quoit_op {
            addr: self.word1,
            arg: self.tag,
            offset: self.word2,
            arg2: self.user_data,
            ..op(sys::QUOIT_OP_POST, worker, user_data)
        }
    }
}
