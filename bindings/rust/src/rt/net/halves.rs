// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two directions of a stream, each owned by somebody else.

use super::{DroppedSend, Stream};
use crate::addr::Addr;
use crate::error::{Error, Result};
use crate::rt::lease::{Lease, SendBuf};
use std::future::Future;
use std::net::Shutdown;
use std::rc::Rc;

/// The receiving half of a [`Stream`].
#[derive(Debug)]
pub struct ReadHalf {
    pub(super) stream: Rc<Stream>,
}

/// The sending half of a [`Stream`]. Dropping it tells the peer, after what is queued, that no more comes.
#[derive(Debug)]
pub struct WriteHalf {
    /// None only in drop and reunite.
    stream: Option<Rc<Stream>>,
}

impl ReadHalf {
    pub(super) fn new(stream: &Rc<Stream>) -> ReadHalf {
        ReadHalf { stream: Rc::clone(stream) }
    }

    /// As [`Stream::recv`].
    pub async fn recv(&mut self) -> Result<Option<Lease>> {
        self.stream.recv().await
    }

    /// As [`Stream::read`].
    pub async fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.stream.read(into).await
    }

    /// As [`Stream::read_until_len`].
    pub async fn read_until_len(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<bool> {
        self.stream.read_until_len(bytes, len).await
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Result<Addr> {
        self.stream.peer_addr()
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<Addr> {
        self.stream.local_addr()
    }

    /// The whole stream again.
    ///
    /// # Errors
    /// `QUOIT_E_ARGUMENT` if the other half is of another stream; both halves are then dropped.
    pub fn reunite(self, mut other: WriteHalf) -> Result<Stream> {
        if !other.stream.as_ref().is_some_and(|stream| Rc::ptr_eq(stream, &self.stream)) {
            return Err(Error::ARGUMENT);
        }
        other.stream = None;
        Rc::try_unwrap(self.stream).map_err(|_| Error::ARGUMENT)
    }
}

impl WriteHalf {
    pub(super) fn new(stream: Rc<Stream>) -> WriteHalf {
        WriteHalf { stream: Some(stream) }
    }

    pub(super) fn stream(&self) -> &Stream {
        self.stream.as_ref().expect("it is there until the drop")
    }

    /// As [`Stream::send`].
    pub fn send<B: SendBuf>(&mut self, bytes: B) -> impl Future<Output = (Result<usize>, B::Back)> {
        self.stream().send(bytes)
    }

    /// As [`Stream::send_many`].
    pub fn send_many(&mut self, pieces: Vec<Vec<u8>>) -> impl Future<Output = (Result<usize>, Vec<Vec<u8>>)> {
        self.stream().send_many(pieces)
    }

    /// As [`Stream::write_all`].
    pub async fn write_all<B: SendBuf>(&mut self, bytes: B) -> Result<()> {
        self.stream().write_all(bytes).await
    }

    /// As [`Stream::settle`].
    pub async fn settle(&mut self) -> Result<Vec<DroppedSend>> {
        self.stream().settle().await
    }

    /// Tells the peer, after what is queued, that no more comes, and waits until that is done.
    pub async fn shutdown(&mut self) -> Result<()> {
        self.stream().shutdown(Shutdown::Write).await
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Result<Addr> {
        self.stream().peer_addr()
    }

    /// The local address.
    pub fn local_addr(&self) -> Result<Addr> {
        self.stream().local_addr()
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.end_sending();
        }
    }
}
