// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"time"
	"unsafe"
)

// SocketOption is one option of a socket: SocketNodelay and so on, and its value. Switches are 0 or 1, times in ns, sizes
// in bytes; the C header quoit/socket.h says what each means.
type SocketOption struct {
	Option uint32
	Value  int64
}

// SetOption sets an option of a stream, listener or datagram socket of this worker. done, which may be nil, is told an error:
// EField if that type of socket has no such option or the option no such value, EStale if it has gone, or setsockopt(2)'s.
// On the worker.
func (w *Worker) SetOption(socket Handle, o SocketOption, done func(err error)) {
	op := w.op()
	op.Opcode, op.Target, op.Arg, op.Offset = OpSocketSet, socket, o.Option, o.Value
	op.UserData = w.calls.add("set an option", nil, func(_ int, err error) {
		if done != nil {
			done(err)
		}
	})
}

// Option is the value that an option has now. EArgument: that type of socket has none such. On the worker.
func (w *Worker) Option(socket Handle, option uint32) (int64, error) {
	var value C.int64_t
	status := C.quoit_socket_get(w.c, C.quoit_handle(socket), C.uint32_t(option), &value)
	return int64(value), statusError("get an option", int64(status))
}

// setOptions sets all of them and tells the first error; with none it tells at once.
func (w *Worker) setOptions(socket Handle, options []SocketOption, done func(err error)) {
	left := len(options)
	if left == 0 {
		done(nil)
		return
	}
	var first error
	for _, o := range options {
		w.SetOption(socket, o, func(err error) {
			if first == nil {
				first = err
			}
			if left--; left == 0 {
				done(first)
			}
		})
	}
}

// closeQuietly ends what nobody will see.
func (w *Worker) closeQuietly(socket Handle) {
	op := w.op()
	op.Opcode, op.Flags, op.Target, op.UserData = OpClose, FlagQuiet|FlagAbort, socket, ownData(tagNone)
}

// DialOptions are those of a connection that is dialled; zero means the default.
type DialOptions struct {
	Timeout time.Duration  // 0: as long as the kernel tries
	Local   string         // the address to connect from, "" the kernel's choice
	Delay   bool           // leave Nagle's algorithm on
	Socket  []SocketOption // set once connected, before OnOpen
}

// DialWith is Dial with options. When an option is refused the connection is closed again, and done is told that error.
func (w *Worker) DialWith(address string, o DialOptions, h ConnHandler, done func(c *Conn, err error)) (cancel func()) {
	if done == nil {
		done = func(*Conn, error) {}
	}
	var local Addr
	addr, err := ParseAddr(address)
	if err == nil && o.Local != "" {
		local, err = ParseAddr(o.Local)
	}
	if err != nil {
		done(nil, err)
		return func() {}
	}
	op := w.op()
	op.Opcode, op.Len, op.TimeoutNs = OpConnect, uint32(unsafe.Sizeof(addr)), duration(o.Timeout)
	if o.Delay {
		op.Arg = ConnectDelay
	}
	userData := w.calls.add("connect to "+address, func(e *Event) {
		if err := eventError("connect to "+address, e); err != nil {
			done(nil, err)
			return
		}
		handle := Handle(e.Value)
		w.setOptions(handle, o.Socket, func(err error) {
			if err != nil {
				w.closeQuietly(handle)
				done(nil, err)
				return
			}
			w.opened(handle, h, done)
		})
	}, nil)
	op.UserData = userData
	mem := w.place(op, int(2*unsafe.Sizeof(addr)))
	*(*Addr)(unsafe.Pointer(&mem[0])) = addr
	if local.Family != 0 {
		*(*Addr)(unsafe.Pointer(&mem[unsafe.Sizeof(addr)])) = local
		op.Arg2 = op.Addr + uint64(unsafe.Sizeof(addr))
	}
	return func() {
		if w.calls.find(userData) != nil {
			op := w.op()
			op.Opcode, op.Flags, op.Arg, op.Arg2 = OpCancel, FlagQuiet, OpConnect, userData
			op.UserData = ownData(tagNone)
		}
	}
}

// receive arms the receive of a stream that no accept has armed.
func (w *Worker) receive(handle Handle) {
	op := w.op()
	op.Opcode, op.Flags, op.Target, op.UserData = OpRecv, FlagMulti, handle, ownData(tagConn)
}

func (w *Worker) opened(handle Handle, h ConnHandler, done func(c *Conn, err error)) {
	c := w.addConn(handle, h)
	w.receive(handle)
	h.OnOpen(c)
	done(c, nil)
}
