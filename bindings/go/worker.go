// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Worker is one thread of the runtime with all it owns. Run drives it; a worker runs once.
type Worker struct {
	rt      *Runtime
	c       *C.quoit_worker
	address uintptr   // of c
	raw     *RawBatch // C memory, constant for the worker's life, as are the arrays and arenas
	ops     []Op
	events  []Event
	handle  Handle

	recvBase, sendBase unsafe.Pointer

	// Owned by the goroutine inside Run.
	handler   Handler
	onBatch   BatchHandler
	onMessage MessageHandler
	batch     Batch
	cur       *Event // the event that is being handled: SendLent and Keep refer to it
	conns     []*Conn
	sockets   map[*DatagramSocket]struct{}
	calls     callTable
	nops      uint32         // ops written since the last crossing
	scratch   uint32         // bytes of the scratch region used since the last turn
	spill     unsafe.Pointer // C memory of the newest op's payload when the scratch region was too small
	result    int32          // what the last turn returned
	inside    bool           // handlers run now
	muted     bool           // a handler failed: none is called any more
	drained   bool
	failure   error

	// Parking: a duplicate of the worker's fd in Go's netpoller.
	file     *os.File
	park     syscall.RawConn
	pollOnce func(fd uintptr) bool
	tick     func()

	// Any goroutine.
	started atomic.Bool
	pending atomic.Bool // posted is not empty
	mu      sync.Mutex
	posted  []func()
	spare   []func()
	ended   bool
	last    Stats // the final counters, once ended
	done    chan struct{}
}

// Handle is the worker's, for SendMessage and PostOps. Any goroutine.
func (w *Worker) Handle() Handle { return w.handle }

// Runtime is the one that made the worker. Any goroutine.
func (w *Worker) Runtime() *Runtime { return w.rt }

// Done is closed when Run has ended. Any goroutine.
func (w *Worker) Done() <-chan struct{} { return w.done }

// RawBatch is the worker's quoit_batch in C memory.
func (w *Worker) RawBatch() *RawBatch { return w.raw }

// Now is the time of this batch on CLOCK_MONOTONIC, in ns: the origin of relative times.
func (w *Worker) Now() uint64 { return w.raw.NowNs }

// Run drives the worker on the calling goroutine, which it locks to its thread, until Stop, the end of ctx, or a
// failure. It returns nil when it was asked to stop, a *PanicError when a handler panicked, and otherwise what went
// wrong. Every open connection gets its OnClose first, except after a panic: then no handler is called any more.
// The worker is gone when Run returns.
func (w *Worker) Run(ctx context.Context, h Handler) (err error) {
	if !w.started.CompareAndSwap(false, true) {
		return statusError("run the worker a second time", int64(EClosed))
	}
	if err := w.rt.enter(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Deferred, so that a handler that calls runtime.Goexit (as testing.T.FailNow does) leaves nothing behind.
	defer func() {
		w.end()
		err = w.failure
	}()
	if w.failure = w.attach(); w.failure != nil {
		return nil
	}
	defer w.watch(ctx)()
	w.handler = h
	w.onBatch, _ = h.(BatchHandler)
	w.onMessage, _ = h.(MessageHandler)
	w.inside = true
	w.guard(func() {
		if err := h.OnBoot(w); err != nil {
			w.Fail(err)
		}
	})
	for !w.drained && w.turn() {
		w.guard(w.tick)
	}
	return nil
}

// Stop asks the worker to end: every op in flight is told its end, every connection its OnClose, then Run returns.
// Any goroutine; stopping a worker that has ended does nothing.
func (w *Worker) Stop() { C.quoit_stop(C.quoit_handle(w.handle)) }

// Drain asks the worker to end in order: it closes its listeners when it has accepted what waits there, tells a
// DrainHandler, and stops when every accepted connection is closed or grace is over. Call it when os/signal brings
// SIGTERM. Asked again, the shorter grace counts. Any goroutine; draining a worker that has ended does nothing.
func (w *Worker) Drain(grace time.Duration) {
	C.quoit_drain(C.quoit_handle(w.handle), C.uint64_t(duration(grace)))
}

// attach puts a duplicate of the worker's fd into Go's netpoller.
func (w *Worker) attach() error {
	fd := C.quoit_worker_fd(w.c)
	if fd < 0 {
		return statusError("get the worker's fd", int64(fd))
	}
	dup := C.quoit_go_dup(C.int(fd))
	if dup < 0 {
		return statusError("duplicate the worker's fd", int64(dup))
	}
	w.file = os.NewFile(uintptr(dup), "quoit-worker")
	var err error
	w.park, err = w.file.SyscallConn()
	return err
}

// watch stops the worker when ctx ends; what it returns ends the watching.
func (w *Worker) watch(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	quit, exited := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(exited)
		select {
		case <-ctx.Done():
			w.Stop()
		case <-quit:
		}
	}()
	return func() {
		close(quit)
		<-exited
	}
}

// turn makes one tick's crossing, and parks the goroutine in the netpoller while there is nothing to handle. The
// non-blocking turn is made inside the netpoller's wait (turnInside): a wake-up between a turn and the wait is then
// remembered and cannot be lost. False when the worker cannot go on.
func (w *Worker) turn() bool {
	w.inside = false
	err := w.park.Read(w.pollOnce)
	w.inside = true
	if err == nil && w.result < 0 {
		err = statusError("turn", int64(w.result))
	}
	if err != nil {
		w.muted = true
		if w.failure == nil {
			w.failure = err
		}
		return false
	}
	w.drained = w.raw.Flags&BatchDrained != 0
	return true
}

// turnInside is called by the netpoller's wait, once at first and then each time the worker's fd became readable,
// until it returns true.
func (w *Worker) turnInside(uintptr) bool {
	nops := w.nops
	w.nops = 0
	w.result = int32(C.quoit_go_turn_nb(C.uintptr_t(w.address), C.uint32_t(nops)))
	w.scratch = 0
	w.freeSpill()
	return w.result != 0 || w.raw.Flags&(BatchLeft|BatchDrained|BatchInterrupted) != 0 || w.pending.Load()
}

// handleBatch hands out what the last turn brought.
func (w *Worker) handleBatch() {
	if w.muted {
		return
	}
	if w.onBatch != nil && w.result > 0 {
		w.onBatch.OnBatch(&w.batch)
	}
	for i := 0; i < int(w.result); i++ {
		w.cur = &w.events[i]
		w.dispatch(w.cur)
	}
	w.cur = nil
	if w.pending.Load() {
		w.runPosted()
	}
	w.handler.OnTick()
}

// guard runs f and turns a panic in it into the worker's failure.
func (w *Worker) guard(f func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		w.cur = nil
		if value := recover(); value != nil {
			w.Fail(&PanicError{Value: value, Stack: debug.Stack()})
		} else {
			w.Fail(errors.New("quoit: a handler ended its goroutine (runtime.Goexit)"))
		}
	}()
	f()
	returned = true
}

// Fail stops the worker because of err, which Run returns (the first one does). No handler is called any more.
func (w *Worker) Fail(err error) {
	if w.failure == nil {
		w.failure = err
	}
	w.muted = true
	w.Stop()
}

// end leaves nothing behind: it drains if Run could not, tells what is still open, and destroys the worker.
func (w *Worker) end() {
	if w.file != nil {
		if !w.drained {
			w.muted = true
			w.Stop()
			for !w.drained && w.result >= 0 && w.turn() {
			}
		}
		w.guard(w.closeConns)
		w.guard(w.closeSockets)
	}
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	// Post refuses from here on; what it took before still runs. The ops it asks for go nowhere.
	w.guard(w.runPosted)
	w.inside = false

	w.freeSpill()
	w.mu.Lock()
	w.last = readStats(w.handle)
	w.mu.Unlock()
	if w.file != nil {
		w.file.Close()
	}
	if status := C.quoit_worker_destroy(w.c); status < 0 && w.failure == nil {
		w.failure = statusError("destroy the worker", int64(status))
	}
	w.rt.leave()
	close(w.done)
}

// op gives the next free op, zeroed. The caller fills it before it calls anything else of the worker.
func (w *Worker) op() *Op {
	if !w.inside {
		panic("quoit: called from outside the worker: use OnBoot, a handler, a callback or Worker.Post")
	}
	if w.nops == uint32(len(w.ops)) || w.spill != nil {
		w.flush()
	}
	o := &w.ops[w.nops]
	w.nops++
	*o = Op{}
	return o
}

// flush gives the library what was written so far, without a system call.
func (w *Worker) flush() {
	nops := w.nops
	w.nops = 0
	if status := C.quoit_go_submit(C.uintptr_t(w.address), C.uint32_t(nops)); status < 0 {
		w.Fail(statusError("submit", int64(status)))
	}
	w.freeSpill()
}

// place finds n bytes of C memory for what o points at, and writes their address into o: the scratch region, or
// when that has no room memory of its own, which the library copies at the next crossing.
func (w *Worker) place(o *Op, n int) []byte {
	used := (w.scratch + 15) &^ 15
	if room := w.raw.ScratchLen; used <= room && uint64(n) <= uint64(room-used) {
		w.scratch = used + uint32(n)
		o.Addr = w.raw.ScratchOff + uint64(used)
		o.Flags |= FlagArenaSend
		return unsafe.Slice((*byte)(unsafe.Add(w.sendBase, uintptr(o.Addr))), n)
	}
	w.spill = C.malloc(C.size_t(n))
	o.Addr = uint64(uintptr(w.spill))
	return unsafe.Slice((*byte)(w.spill), n)
}

func (w *Worker) freeSpill() {
	if w.spill != nil {
		C.free(w.spill)
		w.spill = nil
	}
}

// lent are the received bytes that an event carries.
func (w *Worker) lent(e *Event) []byte {
	if e.Len == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(w.recvBase, uintptr(e.Offset))), e.Len)
}

// lentRange finds data, all of it, in the event that is being handled.
func (w *Worker) lentRange(data []byte) (offset uint64, buffer Handle, ok bool) {
	if w.cur == nil || w.cur.Buffer == 0 || len(data) == 0 {
		return 0, 0, false
	}
	offset = uint64(uintptr(unsafe.Pointer(&data[0])) - uintptr(w.recvBase))
	begin, end := w.cur.Offset, w.cur.Offset+uint64(w.cur.Len)
	if offset < begin || offset > end || uint64(len(data)) > end-offset {
		return 0, 0, false
	}
	return offset, w.cur.Buffer, true
}
