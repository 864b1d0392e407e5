// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners and streams of one kind of address.

use super::{Listener, Stream};
use crate::addr::{Addr, ToAddr};
use crate::error::{Error, Result};
use crate::options::ListenOptions;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;

/// The types that differ in their addresses only.
macro_rules! typed {
    ($listener:ident, $stream:ident, $what:literal) => {
        #[doc = concat!("A [`Listener`] on ", $what, "; all of its methods are here too.")]
        #[derive(Debug)]
        pub struct $listener(pub(super) Listener);

        #[doc = concat!("A [`Stream`] over ", $what, "; all of its methods are here too.")]
        #[derive(Debug)]
        pub struct $stream(pub(super) Stream);

        impl $listener {
            /// The next stream, as [`Listener::accept`].
            pub async fn accept(&self) -> Result<$stream> {
                self.0.accept().await.map($stream)
            }

            /// The same for any address.
            pub fn into_inner(self) -> Listener {
                self.0
            }
        }

        impl $stream {
            /// The same for any address; also to [`Stream::split`], [`Stream::close`] or [`Stream::abort`] it.
            pub fn into_inner(self) -> Stream {
                self.0
            }
        }

        impl Deref for $listener {
            type Target = Listener;

            fn deref(&self) -> &Listener {
                &self.0
            }
        }

        impl Deref for $stream {
            type Target = Stream;

            fn deref(&self) -> &Stream {
                &self.0
            }
        }

        impl From<$stream> for Stream {
            fn from(stream: $stream) -> Stream {
                stream.0
            }
        }
    };
}

typed!(TcpListener, TcpStream, "TCP, IPv4 or IPv6");
typed!(UnixListener, UnixStream, "a Unix socket");

/// An address of TCP or UDP.
pub(super) fn ip_addr(addr: impl ToAddr) -> Result<Addr> {
    let addr = addr.to_addr()?;
    addr.to_socket_addr().map(|_| addr).ok_or(Error::ARGUMENT)
}

pub(super) fn to_ip(addr: Addr) -> Result<SocketAddr> {
    addr.to_socket_addr().ok_or(Error::ARGUMENT)
}

impl TcpListener {
    /// Listens on an address: a text such as `"127.0.0.1:0"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(addr: impl ToAddr) -> Result<TcpListener> {
        TcpListener::bind_with(addr, ListenOptions::new()).await
    }

    /// The same with options.
    pub async fn bind_with(addr: impl ToAddr, options: ListenOptions) -> Result<TcpListener> {
        Listener::bind_with(ip_addr(addr)?, options).await.map(TcpListener)
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        to_ip(self.0.local_addr()?)
    }
}

impl TcpStream {
    /// Connects to an address: a text such as `"127.0.0.1:80"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(addr: impl ToAddr) -> Result<TcpStream> {
        Stream::connect(ip_addr(addr)?).await.map(TcpStream)
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        to_ip(self.0.peer_addr()?)
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        to_ip(self.0.local_addr()?)
    }
}

impl UnixListener {
    /// Listens on a path, which must not be there. A leading NUL names an abstract socket.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(path: impl AsRef<Path>) -> Result<UnixListener> {
        UnixListener::bind_with(path, ListenOptions::new()).await
    }

    /// The same with options, such as [`ListenOptions::unlink`].
    pub async fn bind_with(path: impl AsRef<Path>, options: ListenOptions) -> Result<UnixListener> {
        Listener::bind_with(Addr::unix(path)?, options).await.map(UnixListener)
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> Result<Addr> {
        self.0.local_addr()
    }
}

impl UnixStream {
    /// Connects to a path. A leading NUL names an abstract socket.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(path: impl AsRef<Path>) -> Result<UnixStream> {
        Stream::connect(Addr::unix(path)?).await.map(UnixStream)
    }
}
