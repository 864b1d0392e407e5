// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of futures-io.

use super::{ReadHalf, Stream, TcpStream, UnixStream, WriteHalf};
use futures_io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! read {
    ($($type:ty, $this:ident => $inner:expr;)*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $inner.poll_read(context, into).map_err(io::Error::from)
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

            fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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
