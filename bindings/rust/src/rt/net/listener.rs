// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners.

use super::Stream;
use crate::addr::{Addr, ToAddr};
use crate::error::{check_event, Result};
use crate::handle::Handle;
use crate::ops::op;
use crate::options::ListenOptions;
use crate::rt::core::{current, Core};
use crate::rt::inbox::Inbox;
use crate::rt::op::Op;
use crate::rt::slots::Sink;
use quoit_sys as sys;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

/// Accepted streams that may wait for a call of accept; beyond them the listener's backlog holds them.
const ACCEPTED_MAX: usize = 1024;

/// Accepts streams. Dropping it closes it.
pub struct Listener {
    pub(super) inner: Rc<ListenerInner>,
    port: u16,
}

pub(super) struct ListenerInner {
    pub(super) core: Rc<Core>,
    pub(super) handle: Handle,
    pub(super) inbox: Inbox<Handle>,
    /// It was detached, so dropping must not close it.
    pub(super) left: Cell<bool>,
}

impl Listener {
    /// Listens on an address: a text such as `"127.0.0.1:0"` or `"unix:/path"`, or a `SocketAddr`.
    ///
    /// # Panics
    /// Outside of `block_on`.
    pub async fn bind(addr: impl ToAddr) -> Result<Listener> {
        Listener::bind_with(addr, ListenOptions::new()).await
    }

    /// The same with options.
    pub async fn bind_with(addr: impl ToAddr, options: ListenOptions) -> Result<Listener> {
        let core = current();
        let addr = addr.to_addr()?;
        let listen = sys::quoit_op { opcode: sys::QUOIT_OP_LISTEN, ..Default::default() };
        let listen = Op::start(&core, listen, |op| core.ops().listen_to(addr, options, op.user_data));
        let (_, done) = listen.await;
        check_event(done.event.result)?;
        let handle = Handle::from_raw(done.event.value);
        Ok(Listener::new(core, handle, done.event.aux as u16))
    }

    pub(super) fn new(core: Rc<Core>, handle: Handle, port: u16) -> Listener {
        let inner = ListenerInner { core, handle, inbox: Inbox::new(), left: Cell::new(false) };
        Listener { inner: Rc::new(inner), port }
    }

    /// The next stream. Streams that come while nobody waits are kept for the next call, so dropping the future loses none.
    pub async fn accept(&self) -> Result<Stream> {
        let inner = &self.inner;
        let start = || {
            let sink: Rc<dyn Sink> = Rc::clone(inner) as Rc<dyn Sink>;
            let accept = op(sys::QUOIT_OP_ACCEPT, inner.handle, 0);
            inner.core.start_many(sys::quoit_op { flags: sys::QUOIT_OPF_MULTI, ..accept }, sink);
        };
        let handle = poll_fn(|context| inner.inbox.poll_next(&inner.core, context, start)).await?;
        Ok(Stream::new(&inner.core, handle))
    }

    /// The port that was bound; 0 for Unix sockets.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> Result<Addr> {
        self.inner.core.ops().local_addr(self.inner.handle)
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.inner.handle
    }
}

impl Sink for ListenerInner {
    fn event(&self, core: &Core, event: &sys::quoit_event) {
        self.inbox.begin_event(event);
        match check_event(event.result) {
            Ok(_) if self.inbox.dropped.get() => core.close(Handle::from_raw(event.value), true),
            Ok(_) => {
                let mut items = self.inbox.items.borrow_mut();
                items.push_back(Handle::from_raw(event.value));
                if items.len() >= ACCEPTED_MAX {
                    self.inbox.cancel(core, self.handle, sys::QUOIT_OP_ACCEPT);
                }
            }
            Err(error) => self.inbox.fail(error),
        }
        self.inbox.end_event();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.inner.inbox.dropped.set(true);
        for handle in self.inner.inbox.items.take() {
            self.inner.core.close(handle, true);
        }
        if !self.inner.left.get() {
            self.inner.core.close(self.inner.handle, false);
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("handle", &self.inner.handle).field("port", &self.port).finish()
    }
}
