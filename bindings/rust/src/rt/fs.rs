// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files. A file has no cursor: each read and write names its position.

use super::core::{current, Core};
use super::lease::sealed::Sealed;
use super::lease::{Chunk, SendBuf};
use super::net::result_with_value;
use super::op::{result_of, Op};
use super::slots::Owned;
use crate::error::{check_event, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::options::OpenOptions;
use quoit_sys as sys;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// An open object, closed when it is dropped.
struct Open {
    core: Rc<Core>,
    handle: Handle,
}

impl Open {
    async fn new(core: Rc<Core>, directory: Handle, path: &Path, options: OpenOptions) -> Result<Open> {
        let path = path.as_os_str().as_bytes();
        let open = sys::quoit_op {
            arg: options.flags,
            offset: i64::from(options.mode),
            len: path.len().min(u32::MAX as usize) as u32,
            ..op(sys::QUOIT_OP_OPEN, directory, 0)
        };
        let open = Op::start(&core, open, |op| core.ops().push_with(op, path));
        let handle = result_with_value(open).await?;
        Ok(Open { core, handle })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.core.close(self.handle, false);
    }
}

/// A directory, from which paths are opened.
pub struct Dir {
    open: Open,
}

impl Dir {
    /// Opens a directory.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn open(path: impl AsRef<Path>) -> Result<Dir> {
        let options = OpenOptions::new().read().directory();
        Ok(Dir { open: Open::new(current(), Handle::NONE, path.as_ref(), options).await? })
    }

    /// Opens a file for reading, by a path from this directory.
    pub async fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().read()).await
    }

    /// Opens a file, by a path from this directory.
    pub async fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        let core = Rc::clone(&self.open.core);
        Ok(File { open: Open::new(core, self.open.handle, path.as_ref(), options).await? })
    }
}

/// An open file. Dropping it closes it.
pub struct File {
    open: Open,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn open(path: impl AsRef<Path>) -> Result<File> {
        File::open_with(path, OpenOptions::new().read()).await
    }

    /// Makes a file, or empties the one that is there, for reading and writing.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn create(path: impl AsRef<Path>) -> Result<File> {
        File::open_with(path, OpenOptions::new().read().write().create().truncate()).await
    }

    /// Opens a file.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        Ok(File { open: Open::new(current(), Handle::NONE, path.as_ref(), options).await? })
    }

    /// Reads up to `len` bytes (at most 1 MiB) into a buffer that is lent until the next turn.
    pub fn read(&self, len: u32, position: u64) -> impl Future<Output = Result<Chunk>> {
        let core = Rc::clone(&self.open.core);
        let read =
            sys::quoit_op { len, offset: position as i64, ..op(sys::QUOIT_OP_READ, self.open.handle, 0) };
        let read = Op::plain(&core, read);
        async move {
            let (_, done) = read.await;
            check_event(done.event.result)?;
            Ok(Chunk::new(&core, done.turn, done.event))
        }
    }

    /// Reads into the room that the vector has behind its length, and appends what was read; 0 is the end of the file. The
    /// operation owns the vector and gives it back.
    pub fn read_into(
        &self,
        mut bytes: Vec<u8>,
        position: u64,
    ) -> impl Future<Output = (Result<usize>, Vec<u8>)> {
        let room = bytes.spare_capacity_mut();
        let read = sys::quoit_op {
            flags: sys::QUOIT_OPF_BORROW,
            addr: room.as_mut_ptr() as u64,
            len: room.len().min(1 << 30) as u32,
            offset: position as i64,
            ..op(sys::QUOIT_OP_READ, self.open.handle, 0)
        };
        // SAFETY: the room is the vector's memory, which stays where it is when the vector is moved into the slot.
        let read = unsafe { Op::owning(&self.open.core, read, Owned::Vec(bytes)) };
        async {
            let (owned, done) = read.await;
            let mut bytes = Vec::from_owned(owned);
            let result = check_event(done.event.result).map(|count| count as usize);
            if let Ok(count) = result {
                // SAFETY: count bytes behind the old length, within the room, have been written.
                unsafe { bytes.set_len(bytes.len() + count) };
            }
            (result, bytes)
        }
    }

    /// Writes bytes at a position, all of them. The operation owns them and gives them back.
    pub fn write<B: SendBuf>(
        &self,
        bytes: B,
        position: u64,
    ) -> impl Future<Output = (Result<usize>, B::Back)> {
        self.write_at(bytes, position as i64)
    }

    /// Writes bytes at the end.
    pub fn append<B: SendBuf>(&self, bytes: B) -> impl Future<Output = (Result<usize>, B::Back)> {
        self.write_at(bytes, -1)
    }

    fn write_at<B: SendBuf>(&self, bytes: B, offset: i64) -> impl Future<Output = (Result<usize>, B::Back)> {
        let mut write = sys::quoit_op { offset, ..op(sys::QUOIT_OP_WRITE, self.open.handle, 0) };
        bytes.describe(&mut write);
        // SAFETY: describe names memory that into_owned moves into the slot without changing its address.
        let write = unsafe { Op::owning(&self.open.core, write, bytes.into_owned()) };
        async {
            let (owned, done) = write.await;
            (check_event(done.event.result).map(|count| count as usize), B::from_owned(owned))
        }
    }

    /// Makes what was written durable; with `data_only` without times and the like.
    pub fn sync(&self, data_only: bool) -> impl Future<Output = Result<()>> {
        let sync = op(sys::QUOIT_OP_FSYNC, self.open.handle, 0);
        let sync = Op::plain(&self.open.core, sys::quoit_op { arg: u32::from(data_only), ..sync });
        async { result_of(sync).await.map(|_| ()) }
    }

    /// The file's size.
    pub fn size(&self) -> Result<u64> {
        self.open.core.ops().file_size(self.open.handle)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.open.handle
    }
}

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dir").field("handle", &self.open.handle).finish()
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("handle", &self.open.handle).finish()
    }
}
