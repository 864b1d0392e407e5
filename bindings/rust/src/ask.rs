// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that a program can ask for, in the order of the C header.

use crate::addr::{Addr, ToAddr};
use crate::call::{Call, ARGS_MAX};
use crate::error::{check, check_event, Result};
use crate::event::Received;
use crate::handle::Handle;
use crate::ops::{op, Ops, Plain};
use crate::options::{BindOptions, ListenOptions, Message, OpenOptions};
use quoit_sys as sys;
use std::mem::offset_of;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

#[derive(Clone, Copy)]
#[repr(C)]
struct ListenBlock {
    addr: sys::quoit_addr,
    options: sys::quoit_listen_options,
}

// SAFETY: 128 bytes and 8 bytes, each without padding, the whole a multiple of its alignment.
unsafe impl Plain for ListenBlock {}

#[derive(Clone, Copy)]
#[repr(C)]
struct BindBlock {
    addr: sys::quoit_addr,
    options: sys::quoit_bind_options,
}

// SAFETY: 128 and 144 bytes, each without padding, the whole a multiple of its alignment.
unsafe impl Plain for BindBlock {}

#[derive(Clone, Copy)]
#[repr(C)]
struct CallBlock {
    native: sys::quoit_call,
    args: [u64; ARGS_MAX],
    types: [u8; ARGS_MAX],
}

// SAFETY: 40, 128 and 16 bytes, each without padding, the whole a multiple of its alignment.
unsafe impl Plain for CallBlock {}

impl Ops {
    /// Does nothing, and ends with 0.
    pub fn nop(&self, user_data: u64) {
        self.push(op(sys::QUOIT_OP_NOP, Handle::NONE, user_data));
    }

    /// Listens on an address. The event's value is the listener, its `aux` the port.
    pub fn listen(&self, addr: impl ToAddr, options: ListenOptions, user_data: u64) -> Result<()> {
        self.listen_to(addr.to_addr()?, options, user_data);
        Ok(())
    }

    pub(crate) fn listen_to(&self, addr: Addr, options: ListenOptions, user_data: u64) {
        const LEN: usize = size_of::<sys::quoit_addr>();
        let listen = sys::quoit_op {
            len: LEN as u32,
            arg: options.backlog,
            ..op(sys::QUOIT_OP_LISTEN, Handle::NONE, user_data)
        };
        let block = ListenBlock { addr: addr.raw, options: options.raw() };
        self.push_block(listen, block, |op, _, at| op.arg2 = at + LEN as u64);
    }

    /// Makes a UDP or Unix datagram socket at an address. The event's value is the socket, its `aux` the port.
    pub fn bind(&self, addr: impl ToAddr, options: BindOptions, user_data: u64) -> Result<()> {
        self.bind_to(Some(addr.to_addr()?), options, user_data);
        Ok(())
    }

    /// Without an address, which needs a peer, the kernel chooses it.
    pub(crate) fn bind_to(&self, addr: Option<Addr>, options: BindOptions, user_data: u64) {
        const LEN: usize = size_of::<sys::quoit_addr>();
        let bind = op(sys::QUOIT_OP_BIND, Handle::NONE, user_data);
        let Some(addr) = addr else { return self.push_aside(bind, options.raw()) };
        let bind = sys::quoit_op { len: LEN as u32, ..bind };
        let block = BindBlock { addr: addr.raw, options: options.raw() };
        self.push_block(bind, block, |op, _, at| op.arg2 = at + LEN as u64);
    }

    /// Accepts every stream of a listener until cancelled. With `receive` each new stream also receives; those events carry
    /// this op's `user_data`, and their source is the stream.
    pub fn accept(&self, listener: Handle, receive: bool, user_data: u64) {
        let flags = sys::QUOIT_OPF_MULTI | if receive { sys::QUOIT_OPF_AUTO_RECV } else { 0 };
        self.push(sys::quoit_op { flags, ..op(sys::QUOIT_OP_ACCEPT, listener, user_data) });
    }

    /// Connects. The event's value is the stream.
    pub fn connect(&self, addr: impl ToAddr, user_data: u64) -> Result<()> {
        self.connect_timeout(addr, Duration::ZERO, user_data)
    }

    /// Connects, or ends with `ETIMEDOUT`.
    pub fn connect_timeout(&self, addr: impl ToAddr, timeout: Duration, user_data: u64) -> Result<()> {
        let addr = addr.to_addr()?;
        let connect = sys::quoit_op {
            len: size_of::<sys::quoit_addr>() as u32,
            timeout_ns: nanos(timeout),
            ..op(sys::QUOIT_OP_CONNECT, Handle::NONE, user_data)
        };
        self.push_with(connect, addr.raw.bytes());
        Ok(())
    }

    /// Receives everything that a stream brings.
    pub fn recv(&self, stream: Handle, user_data: u64) {
        self.push(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, ..op(sys::QUOIT_OP_RECV, stream, user_data) });
    }

    /// No event of the stream's recv comes until [`Ops::recv_resume`].
    pub fn recv_pause(&self, stream: Handle, user_data: u64) {
        self.push(quiet(op(sys::QUOIT_OP_RECV_PAUSE, stream, user_data)));
    }

    /// Ends a pause.
    pub fn recv_resume(&self, stream: Handle, user_data: u64) {
        self.push(quiet(op(sys::QUOIT_OP_RECV_RESUME, stream, user_data)));
    }

    /// Sends bytes; an event tells when they are with the kernel.
    pub fn send(&self, stream: Handle, bytes: &[u8], user_data: u64) {
        self.push_payload(op(sys::QUOIT_OP_SEND, stream, user_data), bytes);
    }

    /// Sends bytes; an event comes only if that fails.
    pub fn send_quiet(&self, stream: Handle, bytes: &[u8], user_data: u64) {
        self.push_payload(quiet(op(sys::QUOIT_OP_SEND, stream, user_data)), bytes);
    }

    /// Sends bytes that live as long as the program, without copying them.
    pub fn send_static(&self, stream: Handle, bytes: &'static [u8], user_data: u64) {
        assert!(u32::try_from(bytes.len()).is_ok(), "one operation carries less than 4 GiB");
        let send = sys::quoit_op {
            flags: sys::QUOIT_OPF_BORROW,
            addr: bytes.as_ptr() as u64,
            len: bytes.len() as u32,
            ..op(sys::QUOIT_OP_SEND, stream, user_data)
        };
        // SAFETY: the bytes are never written and never freed.
        unsafe { self.push_raw(send) };
    }

    /// Sends bytes that an event of this batch brought (or that are kept), without copying them: the send holds the buffer
    /// until it is done. An event comes only if that fails.
    pub fn send_received_quiet(&self, stream: Handle, bytes: Received, user_data: u64) {
        self.push(quiet(received(stream, bytes, user_data)));
    }

    /// The same, with an event when it is done.
    pub fn send_received(&self, stream: Handle, bytes: Received, user_data: u64) {
        self.push(received(stream, bytes, user_data));
    }

    /// Ends a direction of a stream after what is queued.
    pub fn shutdown(&self, stream: Handle, how: Shutdown, user_data: u64) {
        self.push(sys::quoit_op { arg: shutdown_arg(how), ..op(sys::QUOIT_OP_SHUTDOWN, stream, user_data) });
    }

    /// Closes anything; a stream first sends what is queued. The event is the handle's last.
    pub fn close(&self, handle: Handle, user_data: u64) {
        self.push(op(sys::QUOIT_OP_CLOSE, handle, user_data));
    }

    /// Tears down at once; unsent bytes are dropped.
    pub fn abort(&self, handle: Handle, user_data: u64) {
        self.push(sys::quoit_op {
            flags: sys::QUOIT_OPF_ABORT,
            ..op(sys::QUOIT_OP_CLOSE, handle, user_data)
        });
    }

    /// Gives a stream to another worker of this process, when its receive has ended, what is queued is sent, and all its events
    /// have been in an earlier batch. There comes an event of kind [`Kind::Moved`](crate::Kind::Moved) with this `user_data_there`; the
    /// event here tells the new handle too, or why the stream has stayed.
    pub fn move_to(&self, stream: Handle, worker: Handle, user_data_there: u64, user_data: u64) {
        self.push(sys::quoit_op {
            addr: user_data_there,
            arg2: worker.raw(),
            ..op(sys::QUOIT_OP_MOVE, stream, user_data)
        });
    }

    /// Asks all ops of an object to end, or those of one opcode (`quoit_sys::QUOIT_OP_*`, 0 for all).
    pub fn cancel(&self, object: Handle, opcode: u32, user_data: u64) {
        self.push(sys::quoit_op { arg: opcode, ..op(sys::QUOIT_OP_CANCEL, object, user_data) });
    }

    /// Asks ops without an object (timer, poll, connect, open, offload) that have this `user_data` to end.
    pub fn cancel_by_data(&self, opcode: u32, of: u64, user_data: u64) {
        self.push(sys::quoit_op {
            arg: opcode,
            arg2: of,
            ..op(sys::QUOIT_OP_CANCEL, Handle::NONE, user_data)
        });
    }

    /// Ends once after a time, counted from this batch ([`Ops::now_ns`]); with a period, again and again after it.
    pub fn timer(&self, after: Duration, period: Duration, user_data: u64) {
        self.push(sys::quoit_op {
            offset: nanos(after) as i64,
            arg2: nanos(period),
            ..op(sys::QUOIT_OP_TIMER, Handle::NONE, user_data)
        });
    }

    /// Sends a message to a worker of this process: there an event of kind [`Kind::Message`](crate::Kind::Message).
    pub fn post(&self, worker: Handle, message: Message, user_data: u64) {
        self.push(quiet(message.op(worker, user_data)));
    }

    /// Waits once for a file descriptor; `mask` is of `quoit_sys::QUOIT_POLL_*`, and so is the event's result. The
    /// descriptor is duplicated and stays the program's.
    pub fn poll(&self, fd: BorrowedFd<'_>, mask: u32, user_data: u64) {
        let offset = i64::from(fd.as_raw_fd());
        self.push(sys::quoit_op { arg: mask, offset, ..op(sys::QUOIT_OP_POLL, Handle::NONE, user_data) });
        // The descriptor is duplicated when the op is taken, and borrowed only until we return.
        self.submit();
    }

    /// Opens a path, from a directory or (with [`Handle::NONE`]) from the working directory. The event's value is the file.
    pub fn open(&self, directory: Handle, path: &[u8], options: OpenOptions, user_data: u64) {
        let open = op(sys::QUOIT_OP_OPEN, directory, user_data);
        let open = sys::quoit_op { arg: options.flags, offset: i64::from(options.mode), ..open };
        self.push_payload(open, path);
    }

    /// Reads up to `len` bytes at a position into a buffer that is lent.
    pub fn read(&self, file: Handle, len: u32, position: u64, user_data: u64) {
        self.push(sys::quoit_op { len, offset: position as i64, ..op(sys::QUOIT_OP_READ, file, user_data) });
    }

    /// Writes bytes at a position; none appends.
    pub fn write(&self, file: Handle, bytes: &[u8], position: Option<u64>, user_data: u64) {
        let offset = position.map_or(-1, |position| position as i64);
        self.push_payload(sys::quoit_op { offset, ..op(sys::QUOIT_OP_WRITE, file, user_data) }, bytes);
    }

    /// Makes what was written durable; with `data_only` without times and the like.
    pub fn fsync(&self, file: Handle, data_only: bool, user_data: u64) {
        self.push(sys::quoit_op { arg: u32::from(data_only), ..op(sys::QUOIT_OP_FSYNC, file, user_data) });
    }

    /// Runs a native function on the blocking pool; the event's value has its return value's bits
    /// ([`value_of`](crate::value_of)).
    pub fn offload(&self, call: &Call, user_data: u64) {
        let native = sys::quoit_call {
            struct_size: size_of::<sys::quoit_call>() as u32,
            nargs: call.nargs,
            entry: call.function,
            return_type: call.returns,
            ..Default::default()
        };
        let offload = sys::quoit_op {
            flags: sys::QUOIT_OPF_ARGS,
            len: native.struct_size,
            ..op(sys::QUOIT_OP_OFFLOAD, Handle::NONE, user_data)
        };
        let block = CallBlock { native, args: call.args, types: call.types };
        self.push_block(offload, block, |_, block, at| {
            block.native.args = at + offset_of!(CallBlock, args) as u64;
            block.native.types = at + offset_of!(CallBlock, types) as u64;
        });
    }

    /// Keeps the bytes of an event past this batch, so that they can be sent later; each keep needs one [`Ops::release`].
    pub fn keep(&self, bytes: Received, user_data: u64) {
        self.push(op(sys::QUOIT_OP_KEEP, bytes.buffer, user_data));
    }

    /// One op names less than 4 GiB.
    fn push_payload(&self, mut op: sys::quoit_op, bytes: &[u8]) {
        assert!(u32::try_from(bytes.len()).is_ok(), "one operation carries less than 4 GiB");
        op.len = bytes.len() as u32;
        self.push_with(op, bytes);
    }

    /// The size of an open file.
    pub fn file_size(&self, file: Handle) -> Result<u64> {
        // SAFETY: this is the owner thread; any handle may be asked for.
        check_event(unsafe { sys::quoit_file_size(self.worker(), file.raw()) })
    }

    /// The value of a socket's option (`quoit_sys::QUOIT_SOCKET_*`).
    pub fn socket_option(&self, socket: Handle, option: u32) -> Result<i64> {
        let mut value = 0;
        // SAFETY: this is the owner thread; any handle and option may be asked for; value takes the result.
        check(unsafe { sys::quoit_socket_get(self.worker(), socket.raw(), option, &mut value) })?;
        Ok(value)
    }

    /// The local address of a stream, listener or datagram socket.
    pub fn local_addr(&self, handle: Handle) -> Result<Addr> {
        let mut addr = Addr::empty();
        // SAFETY: this is the owner thread; any handle may be asked for; addr is a writable struct.
        check(unsafe { sys::quoit_local_addr(self.worker(), handle.raw(), &mut addr.raw) })?;
        Ok(addr)
    }

    /// The peer's address of a stream or datagram socket.
    pub fn peer_addr(&self, handle: Handle) -> Result<Addr> {
        let mut addr = Addr::empty();
        // SAFETY: as above.
        check(unsafe { sys::quoit_peer_addr(self.worker(), handle.raw(), &mut addr.raw) })?;
        Ok(addr)
    }
}

/// Tells only failure.
fn quiet(mut op: sys::quoit_op) -> sys::quoit_op {
    op.flags |= sys::QUOIT_OPF_QUIET;
    op
}

/// A send of received bytes from where they lie.
fn received(stream: Handle, bytes: Received, user_data: u64) -> sys::quoit_op {
    sys::quoit_op {
        flags: sys::QUOIT_OPF_ARENA_RECV,
        addr: bytes.offset,
        len: bytes.len,
        arg2: bytes.buffer.raw(),
        ..op(sys::QUOIT_OP_SEND, stream, user_data)
    }
}

pub(crate) fn shutdown_arg(how: Shutdown) -> u32 {
    match how {
        Shutdown::Read => sys::QUOIT_SHUTDOWN_RECV,
        Shutdown::Write => sys::QUOIT_SHUTDOWN_SEND,
        Shutdown::Both => sys::QUOIT_SHUTDOWN_BOTH,
    }
}

/// Nanoseconds, as many as a signed 64-bit number holds (292 years).
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(i64::MAX as u64)
}
