// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial: a future, what it waits for, and a cut that meets it at a random moment.

use crate::ledger::{add, fault, Random, Totals};
use quoit::{rt, time, JoinHandle};
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

const STALL: Duration = Duration::from_secs(30);

/// When the cut comes: before what the future waits for, at a random turn, or once it is done.
#[derive(Clone, Copy, PartialEq)]
pub enum Moment {
    Early,
    Random,
    Late,
}

pub type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

enum Running<T> {
    Here(Boxed<T>),
    Limited(Boxed<quoit::Result<T>>),
    Task(JoinHandle<T>),
    Over(Option<T>),
}

/// Lets the worker turn; nothing may take for ever.
pub struct Clock {
    what: &'static str,
    began: Instant,
}

impl Clock {
    pub fn new(what: &'static str) -> Clock {
        Clock { what, began: Instant::now() }
    }

    pub async fn tick(&self) {
        if let Err(error) = rt::nop().await {
            fault(&format!("the worker does not turn: {error}"));
        }
        if self.began.elapsed() > STALL {
            fault(&format!("nothing has happened for {STALL:?}: {}", self.what));
        }
    }

    /// So late that what has not arrived is lost.
    pub fn late(&self) -> bool {
        self.began.elapsed() > STALL / 2
    }
}

/// A future's output if it is ready at once; else it is dropped.
pub async fn at_once<T>(mut future: Boxed<T>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub struct Trial {
    pub subject: &'static str,
    pub cut: &'static str,
    pub moment: Moment,
    told_first: bool,
}

impl Trial {
    pub fn new(subject: &'static str, cut: &'static str, random: &Random) -> Trial {
        let moment = random.of(&[Moment::Early, Moment::Random, Moment::Late]);
        Trial { subject, cut, moment, told_first: false }
    }

    fn begin<T: 'static>(&self, future: Boxed<T>, random: &Random) -> Running<T> {
        match self.cut {
            "timeout" => {
                let millis = if self.moment == Moment::Late { 5 } else { random.below(2) };
                Running::Limited(Box::pin(time::timeout(Duration::from_millis(millis), future)))
            }
            "abort" => Running::Task(rt::spawn(future)),
            _ => Running::Here(future),
        }
    }

    /// The future's output, or none if the cut had its way. `cause(first)` is called again and again; `cut` makes the peer's cuts.
    pub async fn run<T: 'static>(
        &mut self,
        random: &Random,
        future: Boxed<T>,
        mut cause: impl FnMut(bool),
        mut cut: impl FnMut(),
    ) -> Option<T> {
        let clock = Clock::new(self.subject);
        let (cause_at, cut_at) = (random.below(4), random.below(4));
        let mut running = self.begin(future, random);
        let mut asked = self.cut == "timeout";
        let (mut caused, mut due) = (false, false);
        for turn in 0.. {
            let done = matches!(running, Running::Over(_));
            due = due || if self.moment == Moment::Early { done } else { turn >= cause_at };
            if due {
                cause(!caused);
                caused = true;
            }
            if !asked && (if self.moment == Moment::Late { done } else { turn >= cut_at }) {
                asked = true;
                self.told_first = done;
                running = match running {
                    Running::Here(_) if self.cut == "drop" => Running::Over(None),
                    Running::Task(handle) => {
                        handle.abort();
                        Running::Task(handle)
                    }
                    other => other,
                };
                cut();
                due |= matches!(self.cut, "end" | "reset");
            }
            running = advance(running).await;
            if caused && asked && matches!(running, Running::Over(_)) {
                break;
            }
            clock.tick().await;
        }
        let Running::Over(value) = running else { unreachable!() };
        if self.cut == "timeout" {
            self.told_first = value.is_some();
        }
        value
    }

    /// Tells what became of the future: `done` although the cut was asked for, or `something` of it, or what it waited for is there.
    pub fn count(&self, totals: &Totals, done: bool, something: bool) {
        let outcome = if self.told_first { 2 } else { usize::from(done || something) };
        totals.outcomes.borrow_mut().entry((self.subject, self.cut)).or_default()[outcome] += 1;
        add(&totals.interleavings, 1);
    }
}

async fn advance<T>(running: Running<T>) -> Running<T> {
    match running {
        Running::Here(mut future) => match poll_now(&mut future).await {
            Some(value) => Running::Over(Some(value)),
            None => Running::Here(future),
        },
        Running::Limited(mut future) => match poll_now(&mut future).await {
            Some(value) => Running::Over(value.ok()),
            None => Running::Limited(future),
        },
        Running::Task(handle) if handle.is_finished() => Running::Over(handle.await.ok()),
        other => other,
    }
}

async fn poll_now<T>(future: &mut Boxed<T>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
