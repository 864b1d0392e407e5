// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use super::datagram::{Datagram, SendOptions, Socket};
use super::typed::{ip_addr, to_ip};
use crate::addr::ToAddr;
use crate::error::Result;
use crate::handle::Handle;
use crate::options::BindOptions;
use quoit_sys as sys;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

/// A UDP socket, connected to a peer or not. Dropping it sends what is queued, then closes it.
///
/// ```
/// # use quoit::net::UdpSocket;
/// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
/// # executor.block_on(async {
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::connect(server.local_addr()?).await?;
/// client.send(b"question").await?;
/// let question = server.recv().await?;
/// assert_eq!((&question[..], question.from()), (&b"question"[..], Some(client.local_addr()?)));
/// server.send_to(b"answer", client.local_addr()?).await?;
/// assert_eq!(&client.recv().await?[..], b"answer");
/// # quoit::Result::Ok(()) })??;
/// # quoit::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    pub(super) socket: Socket,
}

impl UdpSocket {
    /// A socket bound to an address: a text such as `"127.0.0.1:0"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(addr: impl ToAddr) -> Result<UdpSocket> {
        UdpSocket::bind_with(addr, BindOptions::new()).await
    }

    /// The same with options.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind_with(addr: impl ToAddr, options: BindOptions) -> Result<UdpSocket> {
        Ok(UdpSocket { socket: Socket::open(Some(ip_addr(addr)?), options).await? })
    }

    /// A socket, at an address of the kernel's choice, that sends to one peer and takes what that one sends only.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(peer: impl ToAddr) -> Result<UdpSocket> {
        let options = BindOptions::new().peer(ip_addr(peer)?);
        Ok(UdpSocket { socket: Socket::open(None, options).await? })
    }

    /// The next datagram; one without bytes is a datagram too. What comes while nobody waits is kept for the next call, so
    /// dropping the future loses nothing.
    ///
    /// # Errors
    /// `ECONNREFUSED` when the peer of a connected socket refused what was sent; the socket goes on.
    pub async fn recv(&self) -> Result<Datagram> {
        self.socket.recv().await
    }

    /// Sends one datagram to an address; gives its length. The bytes are copied by this call. A datagram goes as a whole or not
    /// at all: dropping the future asks it not to, if it has not gone yet.
    pub fn send_to(&self, bytes: &[u8], to: impl ToAddr) -> impl Future<Output = Result<usize>> {
        self.socket.send_to(bytes, ip_addr(to))
    }

    /// Sends one datagram to the peer of a connected socket.
    pub fn send(&self, bytes: &[u8]) -> impl Future<Output = Result<usize>> {
        self.socket.send(bytes, &SendOptions::new())
    }

    /// Sends a datagram, or several of one length at once, as the options say; gives the bytes that left.
    ///
    /// ```
    /// # use quoit::net::{SendOptions, UdpSocket};
    /// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
    /// # executor.block_on(async {
    /// # let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// # let client = UdpSocket::bind("127.0.0.1:0").await?;
    /// let to_server = SendOptions::new().to(server.local_addr()?);
    /// client.send_with(b"twelve bytes", to_server.segment_size(5)).await?;
    /// for part in [&b"twelv"[..], b"e byt", b"es"] {
    ///     assert_eq!(&server.recv().await?[..], part);
    /// }
    /// # quoit::Result::Ok(()) })??;
    /// # quoit::Result::Ok(())
    /// ```
    pub fn send_with(&self, bytes: &[u8], options: SendOptions) -> impl Future<Output = Result<usize>> {
        self.socket.send(bytes, &options)
    }

    /// Sends the bytes of a datagram back to who sent them, from where they lie.
    pub fn send_back(&self, datagram: Datagram) -> impl Future<Output = Result<usize>> {
        self.socket.send_back(datagram)
    }

    /// Hears what is sent to a group, on the interface of this index (0: one of the kernel's choice). A socket that joined any hears
    /// only the groups that it joined.
    pub fn join_multicast(&self, group: IpAddr, interface: u32) -> impl Future<Output = Result<()>> {
        self.socket.multicast(group, interface, sys::QUOIT_MULTICAST_JOIN)
    }

    /// Hears it no more.
    pub fn leave_multicast(&self, group: IpAddr, interface: u32) -> impl Future<Output = Result<()>> {
        self.socket.multicast(group, interface, sys::QUOIT_MULTICAST_LEAVE)
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        to_ip(self.socket.local_addr()?)
    }

    /// The address of a connected socket's peer.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        to_ip(self.socket.peer_addr()?)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.socket.handle()
    }
}
