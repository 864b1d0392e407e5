// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"sync"

	"quoit"
)

// loop is one worker and what runs on it. The two sides meet in two lists and nowhere else: what goroutines want of the
// worker stands in `due`, which the worker takes once per tick; whom the worker has news for it wakes at the end of
// the tick, all at once. So neither side ever waits for an answer of the other per byte or per event.
type loop struct {
	net *Net
	w   *quoit.Worker

	// Of the worker's goroutine.
	conns       map[*Conn]struct{}
	packetConns map[*PacketConn]struct{}
	acceptors   map[*acceptor]struct{}
	wake        []waker
	onIdle      func() // called once no connection is left

	mu    sync.Mutex
	due   []task
	spare []task
}

// task is something with work for the worker.
type task interface{ work() }

// waker is something whose waiting goroutines the worker wakes.
type waker interface{ wakeUp() }

func newLoop(n *Net, w *quoit.Worker) *loop {
	return &loop{
		net: n, w: w,
		conns:       map[*Conn]struct{}{},
		packetConns: map[*PacketConn]struct{}{},
		acceptors:   map[*acceptor]struct{}{},
	}
}

// run drives the worker until it ends, then tells all that lived on it.
func (l *loop) run() error {
	err := l.w.Run(context.Background(), l)
	for c := range l.conns { // a handler that panicked keeps the worker from telling them
		c.ended(errEnded)
	}
	for c := range l.packetConns {
		c.ended(errEnded)
	}
	for a := range l.acceptors {
		a.ln.fail(errEnded)
	}
	return err
}

// post has the worker come to t. Any goroutine. A worker that has ended needs none of it any more: run has told everyone.
func (l *loop) post(t task) {
	l.mu.Lock()
	first := len(l.due) == 0
	l.due = append(l.due, t)
	l.mu.Unlock()
	if first {
		l.w.Post(nothing) // full is as good: a worker with posts waiting has a tick before it, and so comes to OnTick
	}
}

func nothing() {}

// notify has t woken at the end of this tick.
func (l *loop) notify(t waker) { l.wake = append(l.wake, t) }

// OnTick does what became due, then wakes.
func (l *loop) OnTick() {
	l.mu.Lock()
	due := l.due
	l.due = l.spare[:0]
	l.mu.Unlock()
	for i, t := range due {
		due[i] = nil
		t.work()
	}
	l.spare = due
	for i, t := range l.wake {
		l.wake[i] = nil
		t.wakeUp()
	}
	l.wake = l.wake[:0]
}

func (l *loop) OnBoot(*quoit.Worker) error { return nil }

// OnOpen is that of dialled connections: dial makes them known.
func (l *loop) OnOpen(*quoit.Conn) {}

func (l *loop) OnData(q *quoit.Conn, data []byte) { q.State.(*Conn).received(data) }
func (l *loop) OnEOF(q *quoit.Conn)               { q.State.(*Conn).peerEnded() }

func (l *loop) OnClose(q *quoit.Conn, err error) {
	c := q.State.(*Conn)
	if err == nil {
		err = errEnded
	}
	c.ended(err)
	delete(l.conns, c)
	l.checkIdle()
}

func (l *loop) idle() bool { return len(l.conns) == 0 && len(l.packetConns) == 0 }

func (l *loop) checkIdle() {
	if l.idle() && l.onIdle != nil {
		l.onIdle()
		l.onIdle = nil
	}
}

// adopt makes the connection of a new stream.
func (l *loop) adopt(q *quoit.Conn, network string) *Conn {
	c := newConn(l, q, network)
	l.conns[c] = struct{}{}
	q.State = c
	return c
}

// whenIdle calls f once no connection is left.
func (l *loop) whenIdle(f func()) {
	if l.idle() {
		f()
		return
	}
	if first := l.onIdle; first != nil {
		l.onIdle = func() { first(); f() }
		return
	}
	l.onIdle = f
}
