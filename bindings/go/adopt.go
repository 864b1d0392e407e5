// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import "strings"

// InheritedFd is a descriptor that a service manager passed to this process.
type InheritedFd struct {
	Fd   int
	Name string // "" if it has none
}

// InheritedFds are the descriptors that a service manager passed to this process (LISTEN_FDS: sd_listen_fds(3)), to be adopted; they
// are made close-on-exec. None is no error. Any goroutine, while none changes the environment.
func InheritedFds() ([]InheritedFd, error) {
	var first C.int32_t
	var text [4096]C.char
	count := C.quoit_inherited_fds(&first, &text[0], C.uint32_t(len(text)))
	if count < 0 {
		return nil, statusError("find inherited descriptors", int64(count))
	}
	names := strings.Split(C.GoString(&text[0]), ":")
	list := make([]InheritedFd, count)
	for i := range list {
		if list[i].Fd = int(first) + i; i < len(names) {
			list[i].Name = names[i]
		}
	}
	return list, nil
}

func (w *Worker) adopt(fd int, kind uint32, done func(handle Handle, err error)) {
	op := w.op()
	op.Opcode, op.Arg, op.Offset = OpAdopt, kind, int64(fd)
	op.UserData = w.calls.add("adopt a descriptor", func(e *Event) {
		done(Handle(e.Value), eventError("adopt a descriptor", e))
	}, nil)
}

// AdoptConn makes a connection of a descriptor, which then is quoit's alone, to be closed by it, and made blocking for all that share
// it. On failure it stays the caller's. EKind: it is no stream. done is told once OnOpen was.
func (w *Worker) AdoptConn(fd int, h ConnHandler, done func(c *Conn, err error)) {
	w.adopt(fd, HandleStream, func(handle Handle, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		w.opened(handle, h, done)
	})
}

// AdoptListener makes a listener of a descriptor, as AdoptConn does.
func (w *Worker) AdoptListener(fd int, h ConnHandler, done func(l *Listener, err error)) {
	w.adopt(fd, HandleListener, func(handle Handle, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		l := &Listener{w: w, h: h, handle: handle, port: w.localAddr(handle).Port}
		l.accept()
		done(l, nil)
	})
}

// AdoptDatagramSocket makes a datagram socket of a descriptor, as AdoptConn does. Of o MaxDatagram and Socket count, and
// BindPacketInfo, which says that the descriptor has packet info on.
func (w *Worker) AdoptDatagramSocket(fd int, o BindOptions, h DatagramHandler, done func(s *DatagramSocket, err error)) {
	w.adopt(fd, HandleDatagram, func(handle Handle, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		w.openSocket(handle, o, h, done)
	})
}

// Detach gives the connection's descriptor back: the program's, to be closed by it, blocking and close-on-exec. It waits for what is
// queued to leave, and what has come meanwhile is told by OnData. On success done is the last that is heard of the connection: no
// OnClose follows. On failure, EBusy while Pause holds back what came, the connection goes on.
func (c *Conn) Detach(done func(fd int, err error)) {
	if c.closing || c.detach != nil {
		done(-1, statusError("detach", int64(EClosing)))
		return
	}
	c.detach = done
	// Sends end in order: the end of one without bytes is that of all.
	c.WriteThen(nil, func(_ int, err error) {
		switch {
		case c.closing:
			c.notDetached(statusError("detach", int64(EClosing)))
		case c.deaf:
			c.detachNow()
		default:
			op := c.w.op()
			op.Opcode, op.Flags, op.Target, op.Arg = OpCancel, FlagQuiet, c.handle, OpRecv
			op.UserData = ownData(tagNone)
		}
	})
}

// detachNow follows when receiving has ended.
func (c *Conn) detachNow() {
	op := c.w.op()
	op.Opcode, op.Target = OpDetach, c.handle
	op.UserData = c.w.calls.add("detach", func(e *Event) {
		if err := eventError("detach", e); err != nil {
			if !c.closing && !c.ended {
				c.deaf = false
				c.w.receive(c.handle)
			}
			c.notDetached(err)
			return
		}
		done := c.detach
		c.detach, c.closing, c.aborted = nil, true, true
		c.w.conns[c.handle.Slot()] = nil
		done(int(e.Value), nil)
	}, nil)
}

func (c *Conn) notDetached(err error) {
	if done := c.detach; done != nil {
		c.detach = nil
		done(-1, err)
	}
}

// Detach stops accepting and gives the listener's descriptor back, as Conn.Detach does; connections live on.
func (l *Listener) Detach(done func(fd int, err error)) {
	if l.handle == 0 || l.detach != nil {
		done(-1, statusError("detach", int64(EClosing)))
		return
	}
	l.detach = done
	if l.accepting {
		l.Pause()
		return
	}
	l.detachNow()
}

func (l *Listener) detachNow() {
	op := l.w.op()
	op.Opcode, op.Target = OpDetach, l.handle
	op.UserData = l.w.calls.add("detach", func(e *Event) {
		done, err := l.detach, eventError("detach", e)
		if l.detach = nil; err != nil {
			l.Resume()
			done(-1, err)
			return
		}
		l.handle = 0
		done(int(e.Value), nil)
	}, nil)
}
