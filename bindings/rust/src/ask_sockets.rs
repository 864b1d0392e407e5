// SPDX-License-Identifier: MIT OR Apache-2.0
//! More that a program can ask for: datagrams, options of sockets, channels.

use crate::addr::{Addr, ToAddr};
use crate::error::Result;
use crate::handle::Handle;
use crate::ops::{op, Ops, Plain};
use crate::options::Message;
use quoit_sys as sys;
use std::net::{IpAddr, SocketAddr};

impl Ops {
    /// Receives everything that a datagram socket brings, each event one datagram of at most `max` bytes (0: what a receive buffer
    /// has room for). The event's result is the datagram's length, [`Event::peer`](crate::Event::peer) who sent it.
    pub fn recv_from(&self, socket: Handle, max: u32, user_data: u64) {
        let receive = op(sys::QUOIT_OP_RECVMSG, socket, user_data);
        self.push(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, len: max, ..receive });
    }

    /// Sends one datagram to an address.
    pub fn send_to(&self, socket: Handle, bytes: &[u8], to: impl ToAddr, user_data: u64) -> Result<()> {
        let to = to.to_addr()?;
        self.push_datagram(op(sys::QUOIT_OP_SENDMSG, socket, user_data), bytes, Some(&to), None);
        Ok(())
    }

    /// Sends one datagram to the peer of a connected socket.
    pub fn send_datagram(&self, socket: Handle, bytes: &[u8], user_data: u64) {
        self.push_datagram(op(sys::QUOIT_OP_SENDMSG, socket, user_data), bytes, None, None);
    }

    /// Has a UDP socket hear what is sent to a group, on the interface of this index (0: one of the kernel's choice).
    pub fn join_multicast(&self, socket: Handle, group: IpAddr, interface: u32, user_data: u64) {
        let join = op(sys::QUOIT_OP_MULTICAST, socket, user_data);
        self.push_group(sys::quoit_op { arg: sys::QUOIT_MULTICAST_JOIN, ..join }, group, interface);
    }

    /// Has it hear the group no more.
    pub fn leave_multicast(&self, socket: Handle, group: IpAddr, interface: u32, user_data: u64) {
        let leave = op(sys::QUOIT_OP_MULTICAST, socket, user_data);
        self.push_group(sys::quoit_op { arg: sys::QUOIT_MULTICAST_LEAVE, ..leave }, group, interface);
    }

    /// An op about a group of UDP.
    pub(crate) fn push_group(&self, op: sys::quoit_op, group: IpAddr, interface: u32) {
        let mut addr = Addr::from(SocketAddr::new(group, 0));
        addr.raw.scope = interface;
        self.push_with(sys::quoit_op { len: size_of::<sys::quoit_addr>() as u32, ..op }, addr.raw.bytes());
    }

    /// Sets a socket's option (`quoit_sys::QUOIT_SOCKET_*`), which [`Ops::socket_option`] tells.
    pub fn set_socket_option(&self, socket: Handle, option: u32, value: i64, user_data: u64) {
        let set = op(sys::QUOIT_OP_SOCKET_SET, socket, user_data);
        self.push(sys::quoit_op { arg: option, offset: value, ..set });
    }

    /// Makes a channel of this kind (`quoit_sys::QUOIT_CHANNEL_*`) whose receiver is this worker. The event's object is the channel.
    pub fn channel(&self, capacity: u32, kind: u32, user_data: u64) {
        let channel = op(sys::QUOIT_OP_CHANNEL, Handle::NONE, user_data);
        self.push(sys::quoit_op { len: capacity, arg: kind, ..channel });
    }

    /// Sends a message's words to a channel of any worker; the event tells when it has got room there. It may be
    /// [cancelled](Ops::cancel_by_data) until then.
    pub fn channel_send(&self, channel: Handle, message: Message, user_data: u64) {
        let send = op(sys::QUOIT_OP_CHANNEL_SEND, channel, user_data);
        self.push(sys::quoit_op { addr: message.word1, offset: message.word2, arg: message.tag, ..send });
    }

    /// Receives every message of a channel of this worker ([`Event::message`](crate::Event::message)), as many as a batch has room for
    /// in each turn.
    pub fn channel_recv(&self, channel: Handle, user_data: u64) {
        let receive = op(sys::QUOIT_OP_CHANNEL_RECV, channel, user_data);
        self.push(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, ..receive });
    }
}
