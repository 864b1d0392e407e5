// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TCP echo over batches: `echo HOST:PORT [--driver D] [--buffers N] [--events N]`.
//!
//! Each tick brings a batch of events; the answers go to the kernel with the call that waits for the next one. What was
//! received is sent from where it lies: nothing is copied, and a send that succeeds says nothing.

use quoit::{sys::QUOIT_POLL_IN, Batch, Event, Kind, ListenOptions};
use quoit_services::{farewell, listening, stop_signals, Args};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

/// How long the end may take.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Echo {
    messages: u64,
    bytes: u64,
}

impl Echo {
    fn on_event(
        &mut self,
        batch: &Batch<'_>,
        event: Event<'_>,
    ) -> Result<ControlFlow<()>, Box<dyn std::error::Error>> {
        match event.kind() {
            Kind::Listen => {
                event.result()?;
                batch.accept(event.object(), true, 0);
                listening(batch.local_addr(event.object())?)?;
            }
            Kind::Recv => {
                if !event.data().is_empty() {
                    self.messages += 1;
                    self.bytes += event.data().len() as u64;
                    batch.send_received_quiet(event.source(), event.received(), 0);
                }
                if event.error().is_some() {
                    batch.abort(event.source(), 0);
                } else if !event.more() {
                    batch.close(event.source(), 0);
                }
            }
            // Sends are quiet: this one failed, so the peer has gone.
            Kind::Send => batch.abort(event.source(), 0),
            // A signal asked us to stop.
            Kind::Poll => return Ok(ControlFlow::Break(())),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::read(&["HOST:PORT"])?;
    let signals = stop_signals()?;
    let (runtime, worker) = args.runtime()?;
    let mut worker = worker.build()?;
    worker.batch().listen(&args.positional[0], ListenOptions::new(), 0)?;
    worker.batch().poll(signals.as_fd(), QUOIT_POLL_IN, 0);

    let mut echo = Echo::default();
    let mut outcome = Ok(());
    worker.run(|batch| {
        for event in batch {
            match echo.on_event(batch, event) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(stop) => return stop,
                Err(error) => {
                    outcome = Err(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    outcome?;
    // What is in flight ends before the counters are told.
    worker.shutdown(DRAIN)?;
    Ok(farewell(&runtime, echo.messages, echo.bytes, &worker.stats()?)?)
}

fn main() -> ExitCode {
    quoit_services::main(serve)
}
