// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of others, which differ from crate to crate in a few names and types only.

/// `AsyncRead`, as the module means it, for each type that reads: into what, what it tells, and the function that does it.
macro_rules! readers {
    ($into:ty, $told:ty, $read:ident) => {
        readers! {
            $into, $told, $read:
            Stream, this => this.inner;
            &Stream, this => this.inner;
            TcpStream, this => this.inner;
            UnixStream, this => this.inner;
            ReadHalf, this => this.stream.inner;
        }
    };
    ($into:ty, $told:ty, $read:ident: $($type:ty, $this:ident => $inner:expr;)*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut $into,
            ) -> Poll<io::Result<$told>> {
                let $this = &*self;
                $read(&$inner, context, into).map_err(io::Error::from)
            }
        }
    )*};
}

/// `AsyncWrite`, as the module means it, for each type that writes. The method that ends the sending has this name.
macro_rules! writers {
    ($shutdown:ident) => {
        writers! {
            $shutdown:
            Stream, this => this.inner;
            &Stream, this => this.inner;
            TcpStream, this => this.inner;
            UnixStream, this => this.inner;
            WriteHalf, this => this.stream().inner;
        }
    };
    ($shutdown:ident: $($type:ty, $this:ident => $inner:expr;)*) => {$(
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

            fn $shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                $inner.poll_shutdown(context).map_err(io::Error::from)
            }
        }
    )*};
}

pub(super) use {readers, writers};
