// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of tokio, of which nothing else is used.

use super::{ReadHalf, Stream, TcpStream, UnixStream, WriteHalf};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

macro_rules! read {
    ($($type:ty, $this:ident => $inner:expr;)*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let $this = &*self;
                $inner.poll_read_with(context, into.remaining(), |piece| into.put_slice(piece))
                    .map_ok(|_| ())
                    .map_err(io::Error::from)
            }
        }
    )*};
}

macro_rules! write {
    ($($type:ty, $this:ident => $inner:expr;)*) => {$(
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $inner.poll_write(context, bytes).map_err(io::Error::from)
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                $inner.poll_flush(context).map_err(io::Error::from)
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                $inner.poll_shutdown(context).map_err(io::Error::from)
            }
        }
    )*};
}

read! {
    Stream, this => this.inner;
    &Stream, this => this.inner;
    TcpStream, this => this.inner;
    UnixStream, this => this.inner;
    ReadHalf, this => this.stream.inner;
}

write! {
    Stream, this => this.inner;
    &Stream, this => this.inner;
    TcpStream, this => this.inner;
    UnixStream, this => this.inner;
    WriteHalf, this => this.stream().inner;
}
