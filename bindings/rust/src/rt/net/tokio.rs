// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of tokio, of which nothing else is used.

use super::stream::StreamInner;
use super::traits::{readers, writers};
use super::{ReadHalf, Stream, TcpStream, UnixStream, WriteHalf};
use crate::error::Result;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fn read(stream: &Rc<StreamInner>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
    stream.poll_read_with(context, into.remaining(), |piece| into.put_slice(piece)).map_ok(|_| ())
}

readers!(ReadBuf<'_>, (), read);
writers!(poll_shutdown);
