// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"net"
	"sync"
	"time"
)

// endpoint is what a Conn and a PacketConn have in common: who waits for it, until when, and who is woken.
type endpoint struct {
	l             *loop
	network       string
	local, remote net.Addr
	limits        limits

	// Of the worker's goroutine.
	waking  bool // in the loop's list of whom to wake
	stirred struct{ read, write bool }

	mu                sync.Mutex
	canRead, canWrite sync.Cond
	readers, writers  int // goroutines that wait
	readBy, writeBy   deadline
	due               bool // in the loop's list of who wants something
	closed            bool
}

func (c *endpoint) init(l *loop, network string) {
	c.l, c.network, c.limits = l, network, l.net.limits
	c.canRead.L, c.canWrite.L = &c.mu, &c.mu
}

func (c *endpoint) waitToRead() {
	c.readers++
	c.canRead.Wait()
	c.readers--
}

func (c *endpoint) waitToWrite() {
	c.writers++
	c.canWrite.Wait()
	c.writers--
}

// close ends all waits. It fails the second time.
func (c *endpoint) close() error {
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.readBy.set(time.Time{}, &c.canRead)
	c.writeBy.set(time.Time{}, &c.canWrite)
	c.wakeAll()
	return nil
}

// LocalAddr is our address: a *net.TCPAddr, *net.UDPAddr or *net.UnixAddr, not to be changed.
func (c *endpoint) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address: a *net.TCPAddr, *net.UDPAddr or *net.UnixAddr, not to be changed; nil for datagrams
// without one peer.
func (c *endpoint) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *endpoint) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

// SetReadDeadline ends reads at t with os.ErrDeadlineExceeded, those that wait already too; the zero time does not.
func (c *endpoint) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

// SetWriteDeadline ends writes at t with os.ErrDeadlineExceeded, those that wait already too; the zero time does not.
func (c *endpoint) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *endpoint) setDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	if read {
		c.readBy.set(t, &c.canRead)
	}
	if write {
		c.writeBy.set(t, &c.canWrite)
	}
	return nil
}

func (c *endpoint) opError(op string, err error) error { return c.opErrorTo(op, c.remote, err) }

func (c *endpoint) opErrorTo(op string, to net.Addr, err error) error {
	return &net.OpError{Op: op, Net: c.network, Source: c.local, Addr: to, Err: err}
}

// postFor has the worker look what t, whose endpoint this is, wants.
func (c *endpoint) postFor(t task) {
	if !c.due {
		c.due = true
		c.l.post(t)
	}
}

// stir notes, on the worker, who is to be woken when the tick ends.
func (c *endpoint) stir(read, write bool) {
	c.stirred.read = c.stirred.read || read
	c.stirred.write = c.stirred.write || write
	if (read || write) && !c.waking {
		c.waking = true
		c.l.notify(c)
	}
}

func (c *endpoint) wakeUp() {
	read, write := c.stirred.read, c.stirred.write
	c.waking, c.stirred.read, c.stirred.write = false, false, false
	if read {
		c.canRead.Broadcast()
	}
	if write {
		c.canWrite.Broadcast()
	}
}

func (c *endpoint) wakeAll() {
	c.canRead.Broadcast()
	c.canWrite.Broadcast()
}

// ask has f called on the worker, with what takes its answer, and waits for that.
func (l *loop) ask(f func(done func(err error))) error {
	over := make(chan error, 1)
	if err := l.w.Post(func() { f(func(err error) { over <- err }) }); err != nil {
		return cause(err)
	}
	select {
	case err := <-over:
		return cause(err)
	case <-l.w.Done():
		return net.ErrClosed
	}
}
