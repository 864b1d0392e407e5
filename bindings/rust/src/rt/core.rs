// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heart of an executor: it turns the worker, gives each event to the operation that it answers, and runs the tasks that
//! this woke.

use super::slots::{Done, Left, Sink, Slots};
use super::task::Tasks;
use super::waker;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::ops::{op, Ops};
use crate::worker::Worker;
use quoit_sys as sys;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The user_data of operations whose end nobody waits for. No slot has its index.
pub(crate) const IGNORE: u64 = u64::MAX - 1;

/// Polls between two turns: beyond it tasks that keep waking each other let the kernel in.
const POLLS_PER_TURN: usize = 4096;

pub(crate) struct Core {
    worker: Worker,
    slots: RefCell<Slots>,
    tasks: RefCell<Tasks>,
    ready: RefCell<VecDeque<u32>>,
    /// Counts turns, so that what was lent in one is known to have ended in the next.
    turn: Cell<u64>,
    /// CLOSE operations under way.
    closing: Cell<u32>,
    closed: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Calls with the executor that runs on this thread, if one does.
pub(crate) fn with_current<R>(call: impl FnOnce(&Rc<Core>) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_ref().map(call)).ok().flatten()
}

/// The executor that runs on this thread.
pub(crate) fn current() -> Rc<Core> {
    with_current(Rc::clone).expect("quoit: this must be called inside Executor::block_on")
}

/// While it lives, the executor is this thread's current one.
struct Entered;

impl Entered {
    fn new(core: &Rc<Core>) -> Result<Entered> {
        CURRENT.with(|current| {
            let mut current = current.borrow_mut();
            if current.is_some() {
                return Err(Error::REENTER);
            }
            *current = Some(Rc::clone(core));
            Ok(Entered)
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.borrow_mut().take());
    }
}

impl Core {
    pub(crate) fn new(worker: Worker) -> Rc<Core> {
        waker::register(worker.handle().handle());
        Rc::new(Core {
            worker,
            slots: RefCell::default(),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            turn: Cell::new(0),
            closing: Cell::new(0),
            closed: Cell::new(false),
        })
    }

    pub(crate) fn worker(&self) -> &Worker {
        &self.worker
    }

    pub(crate) fn ops(&self) -> &Ops {
        self.worker.ops()
    }

    pub(crate) fn number(&self) -> u8 {
        self.worker.handle().handle().worker_number()
    }

    /// Which turn's events are being handled.
    pub(crate) fn turn_now(&self) -> u64 {
        self.turn.get()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(crate) fn slots(&self) -> &RefCell<Slots> {
        &self.slots
    }

    pub(crate) fn tasks(&self) -> &RefCell<Tasks> {
        &self.tasks
    }

    /// Makes a task run in this round. False if there is none of that number.
    pub(crate) fn wake(&self, task: u32) -> bool {
        if self.tasks.borrow_mut().queue(task) {
            self.ready.borrow_mut().push_back(task);
        }
        true
    }

    /// Hands over an op that is answered by a sink, for as many events as it brings.
    pub(crate) fn start_many(&self, many: sys::quoit_op, sink: Rc<dyn Sink>) -> u64 {
        self.start_many_with(many, sink, |op| self.ops().push(op))
    }

    /// The same for an op that points at something, which `push` hands over with it.
    pub(crate) fn start_many_with(
        &self,
        mut many: sys::quoit_op,
        sink: Rc<dyn Sink>,
        push: impl FnOnce(sys::quoit_op),
    ) -> u64 {
        many.user_data = self.slots.borrow_mut().insert_many(sink);
        push(many);
        many.user_data
    }

    /// Asks for something whose end nobody waits for.
    pub(crate) fn tell(&self, mut quiet: sys::quoit_op) {
        if !self.closed.get() {
            quiet.user_data = IGNORE;
            self.ops().push(quiet);
        }
    }

    /// Closes a handle in the background.
    pub(crate) fn close(&self, handle: Handle, abort: bool) {
        if self.closed.get() {
            return;
        }
        let flags = if abort { sys::QUOIT_OPF_ABORT } else { 0 };
        self.closing.set(self.closing.get() + 1);
        self.ops().push(sys::quoit_op { flags, ..op(sys::QUOIT_OP_CLOSE, handle, IGNORE) });
    }

    /// One turn: hands over all ops, waits, and gives each event to where it belongs.
    fn turn(&self, timeout_ns: i64) -> Result<()> {
        self.turn.set(self.turn.get() + 1);
        let count = self.ops().turn(timeout_ns)?;
        let batch = self.ops().batch();
        for index in 0..count as usize {
            // SAFETY: the library wrote count events into its array; no turn is made in this loop.
            let event = unsafe { *(batch.events as *const sys::quoit_event).add(index) };
            self.dispatch(event);
        }
        if batch.flags & sys::QUOIT_BATCH_DRAINED != 0 {
            self.closed.set(true);
        }
        Ok(())
    }

    fn dispatch(&self, event: sys::quoit_event) {
        // Kinds that answer no op of ours: bad ops, messages, and those that this version does not know.
        if event.kind >= sys::QUOIT_KIND_BAD_OP {
            return;
        }
        if event.user_data == IGNORE {
            if event.kind == sys::QUOIT_OP_CLOSE {
                self.closing.set(self.closing.get().saturating_sub(1));
            }
            return;
        }
        let last = event.flags & sys::QUOIT_EVF_MORE == 0;
        let sink = self.slots.borrow().sink(event.user_data);
        if let Some(sink) = sink {
            if last {
                self.slots.borrow_mut().remove(event.user_data);
            }
            return sink.event(self, &event);
        }
        if !last {
            return;
        }
        let finished = self.slots.borrow_mut().finish(event.user_data, Done { event, turn: self.turn.get() });
        match finished {
            Some(Ok(waker)) => waker.into_iter().for_each(std::task::Waker::wake),
            // Nobody waits any more. What the op owned ends here, after the slots are free again.
            Some(Err(left)) => self.discard(left, &event),
            None => {}
        }
    }

    /// An abandoned op has ended: its memory is freed, its heir is told, and an object that it has made all the same is closed.
    pub(crate) fn discard(&self, left: Left, event: &sys::quoit_event) {
        drop(left.owned);
        if let Some((heir, number)) = left.heir {
            heir.ended(number, event);
        }
        let makes = matches!(
            event.kind,
            sys::QUOIT_OP_CONNECT
                | sys::QUOIT_OP_OPEN
                | sys::QUOIT_OP_LISTEN
                | sys::QUOIT_OP_BIND
                | sys::QUOIT_OP_ADOPT
                | sys::QUOIT_OP_CHANNEL
        );
        if makes && event.result >= 0 && event.value != 0 {
            self.close(Handle::from_raw(event.value), true);
        }
    }

    /// Runs until the root future is done.
    pub(crate) fn block_on<T>(self: &Rc<Core>, mut root: Pin<&mut dyn Future<Output = T>>) -> Result<T> {
        let _entered = Entered::new(self)?;
        if self.closed.get() {
            return Err(Error::CLOSED);
        }
        self.wake(Tasks::ROOT);
        loop {
            let (woken, spawns) = waker::take_remote(self.number());
            woken.into_iter().for_each(|task| _ = self.wake(task));
            spawns.into_iter().for_each(|spawn| spawn(self));
            if let Some(value) = self.run_ready(root.as_mut()) {
                // What the end of the root asked for goes out; what it was lent ends. An error is for the next call.
                self.turn(0).ok();
                return Ok(value);
            }
            let idle = self.ready.borrow().is_empty();
            self.turn(if idle { -1 } else { 0 })?;
        }
    }

    fn run_ready<T>(self: &Rc<Core>, mut root: Pin<&mut dyn Future<Output = T>>) -> Option<T> {
        for _ in 0..POLLS_PER_TURN {
            let task = self.ready.borrow_mut().pop_front()?;
            let waker = waker::waker(self.number(), task);
            let mut context = Context::from_waker(&waker);
            if task == Tasks::ROOT {
                self.tasks.borrow_mut().dequeue(task);
                if let Poll::Ready(value) = root.as_mut().poll(&mut context) {
                    return Some(value);
                }
                continue;
            }
            let Some(mut future) = self.tasks.borrow_mut().take(task) else { continue };
            // Should it panic, the slot is free again and the future is dropped while the panic goes on.
            let mut polling = Polling { core: self, task, keep: false };
            let pending = future.as_mut().poll(&mut context).is_pending();
            polling.keep = pending;
            drop(polling);
            let ended = if pending { self.tasks.borrow_mut().put_back(task, future) } else { Some(future) };
            // Dropped with no borrow held: it may run any code.
            drop(ended);
        }
        None
    }

    /// Ends everything: tasks are dropped, closes get `linger` to finish, then the worker is stopped and turned until each
    /// operation has told its last event. What has not by then (a native call that still runs) keeps its memory for good.
    pub(crate) fn shutdown(self: &Rc<Core>, linger: Duration) {
        const LIMIT: Duration = Duration::from_secs(5);
        // Tasks may be dropped by code that wants the current executor; within block_on it already is.
        let _entered = Entered::new(self).ok();
        let tasks = self.tasks.borrow_mut().clear();
        drop(tasks);
        let end = Instant::now() + linger;
        while self.closing.get() > 0 && !self.closed.get() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.turn(crate::ask::nanos(left) as i64).is_err() {
                break;
            }
        }
        waker::unregister(self.worker.handle().handle());
        if !self.closed.get() && self.worker.handle().stop().is_ok() {
            let end = Instant::now() + LIMIT;
            while !self.closed.get() && Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                if self.turn(crate::ask::nanos(left) as i64).is_err() {
                    break;
                }
            }
        }
        let drained = self.closed.replace(true);
        let left = std::mem::take(&mut *self.slots.borrow_mut());
        left.end(drained);
    }
}

/// Frees a task's slot unless the task goes on.
struct Polling<'c> {
    core: &'c Rc<Core>,
    task: u32,
    keep: bool,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.core.tasks.borrow_mut().free(self.task);
        }
    }
}
