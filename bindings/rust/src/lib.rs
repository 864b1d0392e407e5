// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread-per-core I/O runtime for Linux, over io_uring or epoll.
//!
//! Two ways to use it:
//!
//! - **Batches** ([`Worker`], [`WorkerThread`]): one turn hands over everything that was asked and brings everything that
//!   happened. The cheapest way: one crossing into C per tick, however many connections it serves.
//! - **async** ([`rt::Executor`]): tasks on one thread over the same worker, with owned buffers, leased receive buffers and
//!   futures that may be dropped at any time.
//!
//! ```no_run
//! use quoit::{net::Listener, rt, Runtime};
//!
//! fn main() -> quoit::Result<()> {
//!     let mut executor = Runtime::new()?.worker().executor()?;
//!     executor.block_on(async {
//!         let listener = Listener::bind("127.0.0.1:7000").await?;
//!         loop {
//!             let stream = listener.accept().await?;
//!             rt::spawn(async move {
//!                 while let Some(bytes) = stream.recv().await? {
//!                     stream.send(bytes).await.0?;
//!                 }
//!                 quoit::Result::Ok(())
//!             });
//!         }
//!     })?
//! }
//! ```
//!
//! The same in batches:
//!
//! ```no_run
//! use quoit::{Handle, Kind, ListenOptions, Runtime};
//! use std::ops::ControlFlow;
//!
//! fn main() -> quoit::Result<()> {
//!     let mut worker = Runtime::new()?.worker().build()?;
//!     worker.batch().listen("127.0.0.1:7000", ListenOptions::new(), 0)?;
//!     worker.run(|batch| {
//!         for event in batch {
//!             match event.kind() {
//!                 Kind::Listen => batch.accept(event.object(), true, 0),
//!                 Kind::Recv => {
//!                     if !event.data().is_empty() {
//!                         batch.send_received_quiet(event.source(), event.received(), 0);
//!                     }
//!                     if !event.more() {
//!                         batch.close(event.source(), 0);
//!                     }
//!                 }
//!                 _ => {}
//!             }
//!         }
//!         ControlFlow::Continue(())
//!     })
//! }
//! ```

#![warn(missing_docs)]

mod addr;
mod ask;
mod ask_sockets;
mod call;
mod error;
mod event;
mod handle;
mod ops;
mod options;
pub mod rt;
mod runtime;
mod stats;
mod thread;
mod worker;

pub use addr::{Addr, ToAddr};
pub use call::{symbol, value_of, Call, Native};
pub use error::{Class, Error, Result};
pub use event::{Batch, Event, Events, Kind, Received};
pub use handle::{Handle, HandleKind};
pub use ops::Ops;
pub use options::{BindOptions, ListenOptions, Message, OpenOptions};
pub use quoit_sys as sys;
pub use rt::{fs, net, spawn, spawn_on, sync, time, JoinError, JoinHandle, RemoteHandle};
pub use runtime::{Driver, Runtime, RuntimeBuilder};
pub use stats::{probe, Probe, ProbeState, Stats};
pub use thread::WorkerThread;
pub use worker::{Worker, WorkerBuilder, WorkerHandle};

/// The version of the loaded library, such as `"0.1.0"`.
pub fn version() -> &'static str {
    // SAFETY: the library gives a text that it never frees, on any thread.
    error::static_text(unsafe { quoit_sys::quoit_version_text() })
}
