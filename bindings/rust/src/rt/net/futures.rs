// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of futures-io.

use super::stream::StreamInner;
use super::traits::{readers, writers};
use super::{ReadHalf, Stream, TcpStream, UnixStream, WriteHalf};
use crate::error::Result;
use futures_io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

fn read(stream: &Rc<StreamInner>, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize>> {
    stream.poll_read(context, into)
}

readers!([u8], usize, read);
writers!(poll_close);
