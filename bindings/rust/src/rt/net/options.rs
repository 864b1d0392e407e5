// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of sockets, by names of ours. Getters ask the kernel at once; what is set has taken effect when its future is done.

use super::datagram::Socket;
use super::{Listener, Stream, TcpListener, TcpStream, UdpSocket, UnixDatagram};
use crate::ask::nanos;
use crate::error::Result;
use crate::handle::Handle;
use crate::ops::op;
use crate::rt::core::Core;
use crate::rt::op::{result_of, Op};
use quoit_sys as sys;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// When a silent peer is asked whether it is still there. The system counts in seconds: times are rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// After so long a silence.
    pub idle: Duration,
    /// And again after so long, while there is no answer.
    pub interval: Duration,
    /// So many without an answer end the connection.
    pub count: u32,
}

/// What has a socket: the executor and the handle.
pub(super) trait Parts {
    fn parts(&self) -> (&Rc<Core>, Handle);
}

macro_rules! parts_of {
    ($($type:ty, $this:ident => $inner:expr;)*) => {$(
        impl Parts for $type {
            fn parts(&self) -> (&Rc<Core>, Handle) {
                let $this = self;
                (&$inner.core, $inner.handle)
            }
        }
    )*};
}

parts_of! {
    Stream, this => this.inner;
    Listener, this => this.inner;
    Socket, this => this.inner;
    TcpStream, this => this.0.inner;
    TcpListener, this => this.0.inner;
    UdpSocket, this => this.socket.inner;
    UnixDatagram, this => this.socket.inner;
}

/// A value as the library has it: switches 0 or 1, times in ns.
trait Value {
    fn to_number(self) -> i64;
    fn from_number(number: i64) -> Self;
}

macro_rules! values {
    ($($type:ty: $value:ident => $to:expr, $number:ident => $from:expr;)*) => {$(
        impl Value for $type {
            fn to_number(self) -> i64 {
                let $value = self;
                $to
            }
            fn from_number($number: i64) -> $type {
                $from
            }
        }
    )*};
}

values! {
    bool: on => i64::from(on), number => number != 0;
    u8: value => i64::from(value), number => number as u8;
    u32: value => i64::from(value), number => number as u32;
    Duration: time => nanos(time) as i64, number => Duration::from_nanos(number.max(0) as u64);
    // None is -1.
    Option<u32>: value => value.map_or(-1, i64::from), number => u32::try_from(number).ok();
    Option<Duration>: time => time.map_or(-1, Value::to_number),
        number => u64::try_from(number).ok().map(Duration::from_nanos);
}

fn get<T: Value>(of: &impl Parts, option: u32) -> Result<T> {
    let (core, handle) = of.parts();
    core.ops().socket_option(handle, option).map(T::from_number)
}

fn set<P: Parts, T: Value>(of: &P, option: u32, value: T) -> impl Future<Output = Result<()>> {
    let (core, handle) = of.parts();
    let set = op(sys::QUOIT_OP_SOCKET_SET, handle, 0);
    let set = Op::plain(core, sys::quoit_op { arg: option, offset: value.to_number(), ..set });
    async { result_of(set).await.map(|_| ()) }
}

/// An option that can be read, and set if there is a name for it.
macro_rules! option {
    ($number:ident, $type:ty, $get:ident, $doc:literal) => {
        #[doc = $doc]
        pub fn $get(&self) -> Result<$type> {
            get(self, sys::$number)
        }
    };
    ($number:ident, $type:ty, $get:ident, $set:ident, $doc:literal) => {
        option!($number, $type, $get, $doc);

        #[doc = concat!("Sets what [`", stringify!($get), "`](Self::", stringify!($get), ") tells.")]
        pub fn $set(&self, value: $type) -> impl Future<Output = Result<()>> {
            set(self, sys::$number, value)
        }
    };
}

/// The options of one type, by their names.
macro_rules! options {
    (nodelay) => { option! { QUOIT_SOCKET_NODELAY, bool, nodelay, set_nodelay,
        "Small sends leave at once; on unless listen or connect said otherwise." } };
    (linger) => { option! { QUOIT_SOCKET_LINGER, Option<Duration>, linger, set_linger,
        "Zero: an [`abort`](Stream::abort) resets the connection. None, the default: it ends it. No other time: a close has its own \
         patience." } };
    (defer_accept) => { option! { QUOIT_SOCKET_DEFER_ACCEPT, Duration, defer_accept, set_defer_accept,
        "A connection is accepted when its first bytes are there, or after this time; zero is off." } };
    (send_buffer) => { option! { QUOIT_SOCKET_SEND_BUFFER, u32, send_buffer, set_send_buffer,
        "Bytes of the kernel's send buffer. It may take more than is set, or cut it to its bound." } };
    (recv_buffer) => { option! { QUOIT_SOCKET_RECV_BUFFER, u32, recv_buffer, set_recv_buffer,
        "Bytes of the kernel's receive buffer. It may take more than is set, or cut it to its bound." } };
    (tos) => { option! { QUOIT_SOCKET_TOS, u8, tos, set_tos,
        "Type of service, or traffic class, of what is sent." } };
    (incoming_cpu) => { option! { QUOIT_SOCKET_INCOMING_CPU, Option<u32>, incoming_cpu, set_incoming_cpu,
        "The CPU that should serve, or on a stream did receive." } };
    (busy_poll) => { option! { QUOIT_SOCKET_BUSY_POLL, Duration, busy_poll, set_busy_poll,
        "How long a receive may spin at the device. More than the system's default needs a privilege: `EPERM`." } };
    (user_timeout) => { option! { QUOIT_SOCKET_USER_TIMEOUT, Duration, user_timeout, set_user_timeout,
        "How long sent bytes may stay unacknowledged before the connection ends; zero is the system's default." } };
    (priority) => { option! { QUOIT_SOCKET_PRIORITY, u32, priority, set_priority,
        "Queueing priority of what is sent, 0 to 6 without privilege." } };
    (mark) => { option! { QUOIT_SOCKET_MARK, u32, mark, set_mark,
        "Mark for routing and filters. Setting it needs a privilege: `EPERM`." } };
    (freebind) => { option! { QUOIT_SOCKET_FREEBIND, bool, freebind,
        "It may be bound to an address that no interface has." } };
    (v6_only) => { option! { QUOIT_SOCKET_V6ONLY, bool, v6_only,
        "A socket of IPv6 takes no IPv4." } };
    (reuse_port) => { option! { QUOIT_SOCKET_REUSEPORT, bool, reuse_port,
        "Several sockets share the port." } };
    (keepalive) => {
        /// When a silent peer is asked whether it is still there; none: never.
        pub fn keepalive(&self) -> Result<Option<Keepalive>> {
            if !get(self, sys::QUOIT_SOCKET_KEEPALIVE)? {
                return Ok(None);
            }
            let idle = get(self, sys::QUOIT_SOCKET_KEEPALIVE_IDLE)?;
            let interval = get(self, sys::QUOIT_SOCKET_KEEPALIVE_INTERVAL)?;
            Ok(Some(Keepalive { idle, interval, count: get(self, sys::QUOIT_SOCKET_KEEPALIVE_COUNT)? }))
        }

        /// Sets what [`keepalive`](Self::keepalive) tells.
        pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> impl Future<Output = Result<()>> {
            // The switch last: it begins with the right times.
            let times = keepalive.map(|Keepalive { idle, interval, count }| {
                let idle = set(self, sys::QUOIT_SOCKET_KEEPALIVE_IDLE, idle);
                let interval = set(self, sys::QUOIT_SOCKET_KEEPALIVE_INTERVAL, interval);
                (idle, interval, set(self, sys::QUOIT_SOCKET_KEEPALIVE_COUNT, count))
            });
            let switch = set(self, sys::QUOIT_SOCKET_KEEPALIVE, keepalive.is_some());
            async {
                if let Some((idle, interval, count)) = times {
                    idle.await?;
                    interval.await?;
                    count.await?;
                }
                switch.await
            }
        }
    };
    ($type:ty: $($name:ident)*) => {
        impl $type {
            $(options! { $name })*
        }
    };
}

options! { Stream: send_buffer recv_buffer incoming_cpu busy_poll priority mark }
options! { Listener: send_buffer recv_buffer incoming_cpu busy_poll priority mark }
options! { TcpStream: nodelay keepalive linger tos user_timeout freebind v6_only reuse_port }
options! { TcpListener: nodelay keepalive defer_accept tos user_timeout freebind v6_only reuse_port }
options! { UdpSocket: send_buffer recv_buffer tos incoming_cpu busy_poll priority mark freebind v6_only reuse_port }
options! { UnixDatagram: send_buffer recv_buffer }
