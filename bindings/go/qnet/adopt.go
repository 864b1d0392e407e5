// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"errors"
	"net"
	"os"
	"syscall"

	"quoit"
)

// A socket of a file is taken by a duplicate of its descriptor, as package net does: the file stays the caller's, to be closed by it
// when it likes. Both share one open socket, which becomes blocking for all that share it.

// FileListener makes a listener of a file's socket. Its Close leaves the path of a Unix socket where it is. With many workers the
// first carries it.
func (n *Net) FileListener(f *os.File) (net.Listener, error) {
	ln, err := take(f, n.adoptListener)
	if err != nil {
		return nil, err
	}
	return ln, nil
}

// FileConn makes a connection of a file's socket.
func (n *Net) FileConn(f *os.File) (net.Conn, error) {
	c, err := take(f, n.adoptConn)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// FilePacketConn makes a PacketConn of a file's datagram socket. Its Close leaves the path of a Unix socket where it is.
func (n *Net) FilePacketConn(f *os.File) (net.PacketConn, error) {
	c, err := take(f, n.adoptPacketConn)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Inherited is a socket that a service manager passed to this process: one of the two.
type Inherited struct {
	Name       string // as the manager calls it, "" if it does not
	Listener   net.Listener
	PacketConn net.PacketConn
}

// Inherited takes the sockets that a service manager passed to this process (LISTEN_FDS: sd_listen_fds(3)); a process can do so once. None
// is no error. After an error what it returns with that is taken, and the rest is not.
func (n *Net) Inherited() (list []Inherited, err error) {
	found, err := quoit.InheritedFds()
	if err != nil {
		return nil, err
	}
	for _, fd := range found {
		ln, err := n.adoptListener(fd.Fd)
		if err == nil {
			list = append(list, Inherited{Name: fd.Name, Listener: ln})
			continue
		}
		if !errors.Is(err, quoit.EKind) {
			return list, err
		}
		c, err := n.adoptPacketConn(fd.Fd)
		if err != nil {
			return list, err
		}
		list = append(list, Inherited{Name: fd.Name, PacketConn: c})
	}
	return list, nil
}

// take gives a duplicate of the file's descriptor away, and closes it where it is not taken.
func take[T any](f *os.File, adopt func(fd int) (T, error)) (taken T, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return taken, err
	}
	fd := -1
	failed := raw.Control(func(from uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, err = syscall.Dup(int(from)); err == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return taken, os.NewSyscallError("dup", err)
	}
	if taken, err = adopt(fd); err != nil {
		syscall.Close(fd)
	}
	return taken, err
}

func adoptError(err error) error { return &net.OpError{Op: "adopt", Net: "file", Err: err} }

// loopFor is whose turn it is, unless the Net is closed.
func (n *Net) loopFor() (*loop, error) {
	if n.isClosed() {
		return nil, adoptError(net.ErrClosed)
	}
	return n.loops[int(n.next.Add(1))%len(n.loops)], nil
}

// kindOf is the network of an address as this package calls it.
func kindOf(a quoit.Addr, unix, other string) string {
	if a.Family == quoit.FamilyUnix {
		return unix
	}
	return other
}

func (n *Net) adoptListener(fd int) (*Listener, error) {
	if n.isClosed() {
		return nil, adoptError(net.ErrClosed)
	}
	l := n.loops[0]
	ln := &Listener{net: n, keeps: true}
	ln.canAccept.L = &ln.mu
	a := &acceptor{loop: l, ln: ln}
	ln.parts = []*acceptor{a}
	err := l.ask(func(done func(err error)) {
		l.w.AdoptListener(fd, a, func(q *quoit.Listener, err error) {
			if err == nil {
				local := q.Local()
				ln.network = kindOf(local, "unix", "tcp")
				a.q, ln.addr = q, netAddr(ln.network, local)
				q.OnEnd = a.onEnd
				l.acceptors[a] = struct{}{}
			}
			done(err)
		})
	})
	if err != nil {
		return nil, adoptError(err)
	}
	n.mu.Lock()
	n.listeners[ln] = struct{}{}
	closed := n.closed
	n.mu.Unlock()
	if closed {
		ln.Close()
	}
	return ln, nil
}

func (n *Net) adoptConn(fd int) (c *Conn, err error) {
	l, err := n.loopFor()
	if err != nil {
		return nil, err
	}
	err = l.ask(func(done func(err error)) {
		l.w.AdoptConn(fd, l, func(q *quoit.Conn, err error) {
			if err == nil {
				c = l.adopt(q, kindOf(q.Local(), "unix", "tcp"))
			}
			done(err)
		})
	})
	if err != nil {
		return nil, adoptError(err)
	}
	if n.isClosed() {
		c.Close()
	}
	return c, nil
}

func (n *Net) adoptPacketConn(fd int) (*PacketConn, error) {
	l, err := n.loopFor()
	if err != nil {
		return nil, err
	}
	c := &PacketConn{keeps: true}
	c.init(l, "")
	c.sentFn = c.sent
	err = l.ask(func(done func(err error)) {
		l.w.AdoptDatagramSocket(fd, quoit.BindOptions{}, c, func(s *quoit.DatagramSocket, err error) {
			if err == nil {
				local, remote := s.Local(), s.Remote()
				c.network = kindOf(local, "unixgram", "udp")
				c.s, c.v6, c.local = s, local.Family == quoit.FamilyV6, netAddr(c.network, local)
				if remote.Len != 0 {
					c.remote = netAddr(c.network, remote)
				}
				l.packetConns[c] = struct{}{}
			}
			done(err)
		})
	})
	if err != nil {
		return nil, adoptError(err)
	}
	if n.isClosed() {
		c.Close()
	}
	return c, nil
}

// Detach ends the connection here and gives its socket back as a file, the caller's to close, once what was written has left. What
// was received and not read comes with it. Reads and writes that wait, and all later ones, end with net.ErrClosed. When it fails the
// connection is closed.
func (c *Conn) Detach() (f *os.File, unread []byte, err error) {
	c.mu.Lock()
	if err = c.close(); err == nil {
		c.detached = true
	}
	c.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	fd := -1
	err = c.l.ask(func(done func(err error)) {
		c.work()
		c.q.Resume()
		c.detach(func(got int, err error) {
			fd = got
			done(err)
		})
	})
	if err != nil {
		return nil, nil, c.opError("detach", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	unread = append(unread, c.in.bytes()...)
	c.in.reset()
	return os.NewFile(uintptr(fd), c.network), unread, nil
}

// detach asks again while bytes that a pause held back come in.
func (c *Conn) detach(done func(fd int, err error)) {
	c.q.Detach(func(fd int, err error) {
		switch {
		case errors.Is(err, quoit.EBusy):
			c.detach(done)
			return
		case err != nil:
			c.q.Close()
		default:
			c.ended(errEnded)
			delete(c.l.conns, c)
			c.l.checkIdle()
		}
		done(fd, err)
	})
}
