// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"math"
	"syscall"
)

// Conn is a stream: a connection that was accepted or dialled.
type Conn struct {
	// State is the program's.
	State any

	w       *Worker
	h       ConnHandler
	handle  Handle
	err     error // what OnClose will tell
	closing bool  // Close or Abort was asked
	aborted bool
	deaf    bool                    // the receive has told its last event
	ended   bool                    // because the peer has ended its side
	detach  func(fd int, err error) // told once it is detached
}

// Handle is the stream's, for ops of the program's own.
func (c *Conn) Handle() Handle { return c.handle }

// Worker is the one that the connection belongs to. Any goroutine.
func (c *Conn) Worker() *Worker { return c.w }

// Closing tells whether the connection takes no more writes.
func (c *Conn) Closing() bool { return c.closing }

// Write queues p, which is copied, and returns at once. Success is not told. A failure ends the connection, and
// OnClose tells it: among them ENOBUFS, when the connection would owe more than WorkerOptions.SendLimit. Use WriteThen to
// be told when bytes have left, and so to bound what waits.
func (c *Conn) Write(p []byte) (int, error) {
	return c.write(p, FlagQuiet, ownData(tagConn))
}

// WriteThen queues p and calls done once with the number of bytes that left and the error if not all did. Here a
// failure does not end the connection.
func (c *Conn) WriteThen(p []byte, done func(n int, err error)) error {
	if err := c.writable(); err != nil {
		return err
	}
	_, err := c.write(p, 0, c.w.calls.add("send", nil, done))
	return err
}

// SendLent sends bytes just received, of this connection or another, without copying them: data is what OnData or
// File.Read handed out, or a part of it, during that call. As with Write only failure is told, by OnClose.
func (c *Conn) SendLent(data []byte) error {
	return c.sendLent(data, nil)
}

// SendLentThen is SendLent that calls done once, as WriteThen does.
func (c *Conn) SendLentThen(data []byte, done func(n int, err error)) error {
	return c.sendLent(data, done)
}

func (c *Conn) writable() error {
	if c.closing {
		return statusError("send", int64(EClosing))
	}
	return nil
}

func (c *Conn) write(p []byte, flags uint32, userData uint64) (int, error) {
	if err := c.writable(); err != nil {
		return 0, err
	}
	if uint64(len(p)) > math.MaxInt32 {
		return 0, statusError("send", -int64(syscall.ENOBUFS))
	}
	if len(p) == 0 && flags&FlagQuiet != 0 {
		return 0, nil
	}
	o := c.w.op()
	o.Opcode, o.Flags, o.Target, o.UserData, o.Len = OpSend, flags, c.handle, userData, uint32(len(p))
	copy(c.w.place(o, len(p)), p)
	return len(p), nil
}

func (c *Conn) sendLent(data []byte, done func(n int, err error)) error {
	if err := c.writable(); err != nil {
		return err
	}
	offset, buffer, ok := c.w.lentRange(data)
	if !ok {
		return statusError("send lent bytes", int64(ERange))
	}
	o := c.w.op()
	o.Opcode, o.Flags, o.Target, o.UserData = OpSend, FlagArenaRecv|FlagQuiet, c.handle, ownData(tagConn)
	o.Addr, o.Len, o.Arg2 = offset, uint32(len(data)), uint64(buffer)
	if done != nil {
		o.Flags, o.UserData = FlagArenaRecv, c.w.calls.add("send", nil, done)
	}
	return nil
}

// Pause stops OnData until Resume: TCP then slows the peer down. What this tick has received already still comes.
func (c *Conn) Pause() { c.simple(OpRecvPause, FlagQuiet, 0) }

// Resume undoes Pause.
func (c *Conn) Resume() { c.simple(OpRecvResume, FlagQuiet, 0) }

// CloseWrite ends our side after what is queued; the peer may go on sending.
func (c *Conn) CloseWrite() { c.simple(OpShutdown, FlagQuiet, ShutdownSend) }

// CloseRead ends the receiving side: the peer's end is told (OnEOF) as soon as what had come is.
func (c *Conn) CloseRead() { c.simple(OpShutdown, FlagQuiet, ShutdownRecv) }

// Close sends what is queued, then ends the connection in order. OnClose follows.
func (c *Conn) Close() {
	if !c.closing {
		c.closing = true
		c.simpleAs(OpClose, 0, 0, ownData(tagConn))
	}
}

// Abort ends the connection at once; bytes that have not left are dropped. OnClose follows. Also after Close.
func (c *Conn) Abort() {
	if c.aborted {
		return
	}
	c.aborted = true
	userData := ownData(tagConn)
	if c.closing {
		userData = ownData(tagNone) // the first close tells the end
	}
	c.closing = true
	c.simpleAs(OpClose, FlagAbort, 0, userData)
}

func (c *Conn) simple(opcode, flags, arg uint32) {
	if !c.closing {
		c.simpleAs(opcode, flags, arg, ownData(tagNone))
	}
}

func (c *Conn) simpleAs(opcode, flags, arg uint32, userData uint64) {
	o := c.w.op()
	o.Opcode, o.Flags, o.Target, o.Arg, o.UserData = opcode, flags, c.handle, arg, userData
}

// Remote is the peer's address, the zero Addr if it cannot be told any more.
func (c *Conn) Remote() Addr { return c.w.remoteAddr(c.handle) }

// Local is our address, the zero Addr if it cannot be told any more.
func (c *Conn) Local() Addr { return c.w.localAddr(c.handle) }

// RemoteAddr is the peer's address as text, "" if it cannot be told any more.
func (c *Conn) RemoteAddr() string { return c.Remote().String() }

// LocalAddr is our address as text, "" if it cannot be told any more.
func (c *Conn) LocalAddr() string { return c.Local().String() }

// addConn makes the connection of a new stream.
func (w *Worker) addConn(handle Handle, h ConnHandler) *Conn {
	slot := int(handle.Slot())
	for len(w.conns) <= slot {
		w.conns = append(w.conns, nil)
	}
	c := &Conn{w: w, h: h, handle: handle}
	w.conns[slot] = c
	return c
}

// conn finds the connection of a handle, nil if there is none.
func (w *Worker) conn(handle Handle) *Conn {
	if slot := int(handle.Slot()); slot < len(w.conns) {
		if c := w.conns[slot]; c != nil && c.handle == handle {
			return c
		}
	}
	return nil
}

// Conn finds a live connection by its handle, nil if there is none.
func (w *Worker) Conn(handle Handle) *Conn { return w.conn(handle) }

// connEvent handles an event of a connection's own ops.
func (w *Worker) connEvent(e *Event) {
	c := w.conn(e.Source)
	if c == nil {
		return
	}
	switch e.Kind {
	case OpRecv:
		c.received(e)
	case OpSend:
		if e.Result < 0 {
			c.failed(eventError("send", e))
		}
	case OpClose:
		// While the worker stops a close is refused; closeConns tells the end then.
		if e.Result >= 0 || Status(e.Result) == EStale {
			w.dropConn(c)
		}
	}
}

func (c *Conn) received(e *Event) {
	if e.Len > 0 && !c.closing {
		c.h.OnData(c, c.w.lent(e))
	}
	if e.Flags&EventMore != 0 {
		return
	}
	c.deaf, c.ended = true, e.Flags&EventEOF != 0
	if c.closing {
		return
	}
	if c.detach != nil && (c.ended || e.Result == -int64(syscall.ECANCELED)) {
		c.detachNow()
		return
	}
	if e.Result < 0 {
		c.failed(eventError("recv", e))
		return
	}
	if h, ok := c.h.(EOFHandler); ok {
		h.OnEOF(c)
		return
	}
	c.Close()
}

// failed keeps the first error and ends the connection.
func (c *Conn) failed(err error) {
	if c.err == nil {
		c.err = err
	}
	if !c.closing {
		c.Abort()
	}
}

func (w *Worker) dropConn(c *Conn) {
	w.conns[c.handle.Slot()] = nil
	c.closing, c.aborted = true, true
	c.notDetached(statusError("detach", int64(EClosed)))
	c.h.OnClose(c, c.err)
}

// closeConns tells the end of all that is still open when the worker has stopped.
func (w *Worker) closeConns() {
	if w.muted {
		return
	}
	for _, c := range w.conns {
		if c != nil {
			if c.err == nil {
				c.err = statusError("connection", int64(EClosed))
			}
			w.dropConn(c)
		}
	}
}
