// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"time"
	"unsafe"
)

func (a *Addr) c() *C.quoit_addr { return (*C.quoit_addr)(unsafe.Pointer(a)) }

// ParseAddr reads "127.0.0.1:80", "[::1]:80", "unix:/path" or "unix:@name". Any goroutine.
func ParseAddr(text string) (Addr, error) {
	var a Addr
	bytes := []byte(text + "\x00") // never empty
	status := C.quoit_addr_parse((*C.char)(unsafe.Pointer(&bytes[0])), C.uint32_t(len(text)), a.c())
	return a, statusError("read the address "+text, int64(status))
}

// String shows the address as ParseAddr reads it. Any goroutine.
func (a Addr) String() string {
	var text [256]C.char
	n := C.quoit_addr_text(a.c(), &text[0], C.uint32_t(len(text)))
	if n < 0 {
		return ""
	}
	return C.GoStringN(&text[0], C.int(n))
}

func (w *Worker) localAddr(handle Handle) Addr {
	var a Addr
	if C.quoit_local_addr(w.c, C.quoit_handle(handle), a.c()) < 0 {
		return Addr{}
	}
	return a
}

func (w *Worker) remoteAddr(handle Handle) Addr {
	var a Addr
	if C.quoit_peer_addr(w.c, C.quoit_handle(handle), a.c()) < 0 {
		return Addr{}
	}
	return a
}

// ListenOptions are those of a listener; zero means the default.
type ListenOptions struct {
	Flags   uint32 // ListenReuseport and so on
	Backlog uint32
	// StreamsMax bounds the connections of the listener at one time: more wait in the backlog.
	StreamsMax uint32
	// SkewPercent, with ListenReuseport on each worker of the runtime: one that has more than so many percent more
	// connections than the one with the fewest hands new ones over to that one.
	SkewPercent uint32
	// Socket are options to set before the first connection is accepted, which has them too (but SocketLinger).
	Socket []SocketOption
}

// Listener accepts connections for a ConnHandler.
type Listener struct {
	// OnEnd, if set, is told when accepting ended, with the error if it was not by Close.
	OnEnd func(err error)

	w         *Worker
	h         ConnHandler
	handle    Handle
	port      uint16
	accepting bool // the accept has not told its end
	cancelled bool // and was asked to
	paused    bool
	detach    func(fd int, err error) // told once it is detached
}

// Listen listens on an address and gives each connection to h. done is told the listener, or the error.
func (w *Worker) Listen(address string, o ListenOptions, h ConnHandler, done func(l *Listener, err error)) {
	addr, err := ParseAddr(address)
	if err != nil {
		done(nil, err)
		return
	}
	op := w.op()
	op.Opcode, op.Len, op.Arg = OpListen, uint32(unsafe.Sizeof(addr)), o.Backlog
	op.UserData = w.calls.add("listen on "+address, func(e *Event) {
		if err := eventError("listen on "+address, e); err != nil {
			done(nil, err)
			return
		}
		l := &Listener{w: w, h: h, handle: Handle(e.Value), port: uint16(e.Aux)}
		w.setOptions(l.handle, o.Socket, func(err error) {
			if err != nil {
				w.closeQuietly(l.handle)
				done(nil, err)
				return
			}
			l.accept()
			done(l, nil)
		})
	}, nil)
	mem := w.place(op, int(unsafe.Sizeof(addr)+unsafe.Sizeof(rawListenOptions{})))
	*(*Addr)(unsafe.Pointer(&mem[0])) = addr
	options := (*rawListenOptions)(unsafe.Pointer(&mem[unsafe.Sizeof(addr)]))
	*options = rawListenOptions{StructSize: uint32(unsafe.Sizeof(*options)), Flags: o.Flags,
		StreamsMax: o.StreamsMax, Skew: o.SkewPercent}
	op.Arg2 = op.Addr + uint64(unsafe.Sizeof(addr))
}

// accept arms the accept that lasts as long as the listener, each new stream with a receive of its own.
func (l *Listener) accept() {
	op := l.w.op()
	op.Opcode, op.Flags, op.Target = OpAccept, FlagMulti|FlagAutoRecv, l.handle
	op.UserData = l.w.calls.add("accept", l.accepted, nil)
	l.accepting = true
}

func (l *Listener) accepted(e *Event) {
	if e.Result >= 0 && e.Value != 0 {
		l.h.OnOpen(l.w.addConn(Handle(e.Value), l.h))
	}
	if e.Flags&EventMore != 0 {
		return
	}
	l.accepting = false
	cancelled := l.cancelled
	l.cancelled = false
	if cancelled && l.handle != 0 {
		if l.detach != nil {
			l.detachNow()
			return
		}
		if !l.paused { // resumed before the pause had come through
			l.accept()
		}
		return
	}
	if l.OnEnd != nil {
		err := eventError("accept", e)
		if l.handle == 0 { // closed by us
			err = nil
		}
		l.OnEnd(err)
	}
}

// Pause stops accepting until Resume; who connects waits in the kernel's backlog. What this tick has accepted
// already still comes.
func (l *Listener) Pause() {
	if l.handle == 0 || l.paused {
		return
	}
	l.paused = true
	if l.cancelled || !l.accepting {
		return
	}
	l.cancelled = true
	op := l.w.op()
	op.Opcode, op.Flags, op.Target, op.Arg, op.UserData = OpCancel, FlagQuiet, l.handle, OpAccept, ownData(tagNone)
}

// Resume undoes Pause.
func (l *Listener) Resume() {
	if l.handle == 0 || !l.paused {
		return
	}
	l.paused = false
	if !l.accepting {
		l.accept()
	}
}

// Handle is the listener's, 0 once closed.
func (l *Listener) Handle() Handle { return l.handle }

// Port is the port that was bound.
func (l *Listener) Port() int { return int(l.port) }

// Addr is the address that was bound, as text.
func (l *Listener) Addr() string { return l.Local().String() }

// Local is the address that was bound, the zero Addr once closed.
func (l *Listener) Local() Addr { return l.w.localAddr(l.handle) }

// Close stops accepting. Connections live on.
func (l *Listener) Close() {
	if l.handle != 0 {
		op := l.w.op()
		op.Opcode, op.Flags, op.Target, op.UserData = OpClose, FlagQuiet, l.handle, ownData(tagNone)
		l.handle = 0
	}
}

// Dial connects to an address. On success h.OnOpen comes first, then done with the connection; on failure done with
// the error. timeout 0 waits as long as the kernel does. done may be nil. What is returned asks the attempt to end: done
// is then told ECANCELED, unless it was told something already or the connection was there first.
func (w *Worker) Dial(address string, timeout time.Duration, h ConnHandler, done func(c *Conn, err error)) (cancel func()) {
	return w.DialWith(address, DialOptions{Timeout: timeout}, h, done)
}

func duration(d time.Duration) uint64 {
	if d < 0 {
		return 0
	}
	return uint64(d)
}
