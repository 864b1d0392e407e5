// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagram sockets of the Unix family.

use super::datagram::{Datagram, SendOptions, Socket};
use crate::addr::Addr;
use crate::error::Result;
use crate::handle::Handle;
use crate::options::BindOptions;
use std::future::Future;
use std::path::Path;

/// A Unix datagram socket, connected to a peer or not: nothing is lost, and what is sent waits until the peer has room. Dropping
/// it sends what is queued, then closes it. A path that it was bound to stays.
///
/// ```
/// # use quoit::net::UnixDatagram;
/// # let mut executor = quoit::Runtime::new()?.worker().executor()?;
/// # executor.block_on(async {
/// # let name = format!("\0quoit-example-{}", std::process::id());
/// # let client_name = format!("{name}-client");
/// // A leading NUL names an abstract socket.
/// let server = UnixDatagram::bind(&name).await?;
/// let client = UnixDatagram::bind(&client_name).await?;
/// client.send_to(b"question", &name).await?;
/// let question = server.recv().await?;
/// assert_eq!(question.from_path().as_deref(), Some(client_name.as_ref()));
/// server.send_back(question).await?;
/// assert_eq!(&client.recv().await?[..], b"question");
/// # quoit::Result::Ok(()) })??;
/// # quoit::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct UnixDatagram {
    pub(super) socket: Socket,
}

impl UnixDatagram {
    /// A socket bound to a path, which must not be there.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(path: impl AsRef<Path>) -> Result<UnixDatagram> {
        UnixDatagram::bind_with(path, BindOptions::new()).await
    }

    /// The same with options, such as [`BindOptions::unlink`] and [`BindOptions::peer`].
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind_with(path: impl AsRef<Path>, options: BindOptions) -> Result<UnixDatagram> {
        Ok(UnixDatagram { socket: Socket::open(Some(Addr::unix(path)?), options).await? })
    }

    /// A socket without a name that sends to one peer, which cannot answer it.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn connect(path: impl AsRef<Path>) -> Result<UnixDatagram> {
        let options = BindOptions::new().peer(Addr::unix(path)?);
        Ok(UnixDatagram { socket: Socket::open(None, options).await? })
    }

    /// The next datagram, as [`UdpSocket::recv`](super::UdpSocket::recv).
    ///
    /// # Errors
    /// `ENOTCONN` at the end of a connection of messages (seqpacket), which may be adopted as a socket of this type.
    pub async fn recv(&self) -> Result<Datagram> {
        self.socket.recv().await
    }

    /// Sends one datagram to a path; gives its length. The bytes are copied by this call. Dropping the future asks it not to go, if
    /// it has not gone yet.
    pub fn send_to(&self, bytes: &[u8], to: impl AsRef<Path>) -> impl Future<Output = Result<usize>> {
        self.socket.send_to(bytes, Addr::unix(to))
    }

    /// Sends one datagram to the peer of a connected socket.
    pub fn send(&self, bytes: &[u8]) -> impl Future<Output = Result<usize>> {
        self.socket.send(bytes, &SendOptions::new())
    }

    /// Sends the bytes of a datagram back to who sent them, from where they lie.
    pub fn send_back(&self, datagram: Datagram) -> impl Future<Output = Result<usize>> {
        self.socket.send_back(datagram)
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<Addr> {
        self.socket.local_addr()
    }

    /// The address of a connected socket's peer.
    pub fn peer_addr(&self) -> Result<Addr> {
        self.socket.peer_addr()
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.socket.handle()
    }
}
