// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners, streams and datagram sockets.
//!
//! [`Listener`] and [`Stream`] are for any address; [`TcpListener`], [`TcpStream`], [`UnixListener`] and [`UnixStream`] are the
//! same for one kind of it.
//!
//! Futures may be dropped at any time, as `select!` does. Dropping an accept or a receive loses nothing: what came waits for
//! the next call. Dropping a send cancels it, and [`Stream::settle`] tells how much of it went.
//!
//! Options have getters, which ask the kernel at once, and setters, which are futures: [`TcpStream::set_nodelay`] and so on.
//! [`TcpStream::from_std`] and [`TcpStream::into_std`], and their like, move sockets between a worker and the standard library,
//! [`Listener::adopt`] takes [`inherited`] ones, and [`UnixStream::send_fd`] passes descriptors to other processes.
//!
//! With the feature `futures-io` or `tokio-io`, streams and their halves have the traits `AsyncRead` and `AsyncWrite` of that
//! crate. What `poll_write` takes is copied and sent in the background: a later call tells if that failed.

mod adopt;
mod datagram;
mod fds;
#[cfg(feature = "futures-io")]
mod futures;
mod halves;
mod listener;
mod options;
mod sends;
mod stream;
#[cfg(feature = "tokio-io")]
mod tokio;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod traits;
mod typed;
mod udp;
mod unix_datagram;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod written;

pub use adopt::{inherited, Inherited, NotDetached};
pub use datagram::{Datagram, SendOptions};
pub use fds::{Credentials, Passed};
pub use halves::{ReadHalf, WriteHalf};
pub use listener::Listener;
pub use options::Keepalive;
pub use sends::DroppedSend;
pub use stream::Stream;
pub use typed::{TcpListener, TcpStream, UnixListener, UnixStream};
pub use udp::UdpSocket;
pub use unix_datagram::UnixDatagram;

use super::op::Op;
use crate::error::{check_event, Result};
use crate::handle::Handle;

/// The object that an operation makes.
pub(crate) async fn result_with_value(op: Op) -> Result<Handle> {
    let (_, done) = op.await;
    check_event(done.event.result).map(|_| Handle::from_raw(done.event.value))
}
