// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import "unsafe"

// wakeOp does nothing on the worker and tells nothing: posting it only wakes.
var wakeOp = [1]Op{{Opcode: OpNop, Flags: FlagQuiet, UserData: ownBit | tagNone<<tagShift}}

// postedMax is how many posted functions may wait: without a bound, goroutines that post faster than the worker calls
// would make each tick longer than the one before.
const postedMax = 65536

// Post has f called on the worker, in the order of the posts of each goroutine. Any goroutine. It fails with EClosed
// once Run has ended, and with EAGAIN while 65,536 posts wait to be called; what it accepted is called, unless a
// handler panics first.
func (w *Worker) Post(f func()) error { return w.post(f, false) }

// post is Post, for the package's own purposes without its bound.
func (w *Worker) post(f func(), surely bool) error {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return statusError("post", int64(EClosed))
	}
	if len(w.posted) >= postedMax && !surely {
		w.mu.Unlock()
		return statusError("post", -int64(eagain))
	}
	w.posted = append(w.posted, f)
	wake := !w.pending.Load()
	w.pending.Store(true)
	w.mu.Unlock()
	if !wake {
		return nil // a wake-up is under way: the worker looks again before it sleeps
	}
	// A full mailbox takes nothing, but then the worker has been woken already. A worker that ended runs what was posted.
	PostOps(w.handle, wakeOp[:])
	return nil
}

// runPosted calls what was posted until now.
func (w *Worker) runPosted() {
	w.mu.Lock()
	w.pending.Store(false)
	list := w.posted
	w.posted = w.spare[:0]
	w.mu.Unlock()
	if w.muted {
		return
	}
	for i, f := range list {
		list[i] = nil
		f()
	}
	w.spare = list
}

// PostOps has ops executed on a worker, where their events appear (to a BatchHandler). Any goroutine. It returns how
// many were taken, 0 when the mailbox is full. Payload must lie in C memory (Memory); all of it is copied.
func PostOps(worker Handle, ops []Op) (int, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	n := C.quoit_post(C.quoit_handle(worker), (*C.quoit_op)(unsafe.Pointer(&ops[0])), C.uint32_t(len(ops)))
	if n < 0 {
		return 0, statusError("post", int64(n))
	}
	return int(n), nil
}

// Message is three words from one worker to another.
type Message struct {
	Word1    uint64
	Word2    int64
	Arg      uint32
	UserData uint64 // as the sender chose
}

func (m Message) fill(o *Op, to Handle) {
	o.Opcode, o.Target = OpPost, to
	o.Addr, o.Offset, o.Arg, o.Arg2 = m.Word1, m.Word2, m.Arg, m.UserData
}

// SendMessage sends a message to another worker of this process, whose Handler receives it as a MessageHandler. Messages of
// one sender arrive in order. done, which may be nil, is told EAGAIN when the mailbox there is full.
func (w *Worker) SendMessage(to Handle, m Message, done func(err error)) {
	o := w.op()
	m.fill(o, to)
	if done == nil {
		o.Flags, o.UserData = FlagQuiet, ownData(tagNone)
		return
	}
	o.UserData = w.calls.add("send a message", nil, func(_ int, err error) { done(err) })
}

// PostMessage sends a message to a worker from any goroutine.
func PostMessage(to Handle, m Message) error {
	o := [1]Op{{Flags: FlagQuiet, UserData: ownData(tagNone)}}
	m.fill(&o[0], to)
	n, err := PostOps(to, o[:])
	if err == nil && n == 0 {
		err = statusError("send a message", -int64(eagain))
	}
	return err
}
