// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"quoit"
)

// Conn is a connection over TCP or a Unix socket. It is a net.Conn: any goroutines may use it at once.
type Conn struct {
	endpoint

	// Of the worker's goroutine.
	q      *quoit.Conn
	sentFn func(n int, err error) // sent, made once
	shut   bool                   // CloseWrite was passed on
	deaf   bool                   // CloseRead was passed on

	// Under the endpoint's lock.
	in                   buffer // received and not yet read
	out                  buffer // written and not yet with the worker
	owed                 int    // bytes with the worker that have not left
	paused               bool   // the worker receives no more until `in` is nearly empty
	writing              bool   // a Write goes on: others wait, so that none ends up inside it
	readShut, writeShut  bool
	resets               bool // Close drops what has not left
	detached             bool // by Detach, which then is what `closed` means
	eof, over            bool
	readError, sendError error
}

func newConn(l *loop, q *quoit.Conn, network string) *Conn {
	c := &Conn{q: q}
	c.init(l, network)
	c.local, c.remote = netAddr(network, q.Local()), netAddr(network, q.Remote())
	c.sentFn = c.sent
	return c
}

// Read takes bytes that have come, and waits for some if there are none. The end of what the peer sends is io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case c.readBy.past:
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.in.len() > 0:
			n := c.in.take(p)
			if c.paused && c.in.len() <= c.limits.readLow {
				c.post()
			}
			return n, nil
		case c.eof || c.readShut:
			return 0, io.EOF
		case c.readError != nil:
			return 0, c.opError("read", c.readError)
		}
		c.waitToRead()
	}
}

// Write hands bytes over to be sent, and waits while the connection owes more than Options.WriteBuffer. After an error n
// says how many were handed over: those may still arrive.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		if err := c.writable(); err != nil {
			return 0, err
		}
		c.waitToWrite()
	}
	c.writing = true
	defer c.wrote()
	for {
		if err := c.writable(); err != nil {
			return n, err
		}
		if room := c.limits.write - c.owed - c.out.len(); room > 0 && n < len(p) {
			piece := p[n:]
			if len(piece) > room {
				piece = piece[:room]
			}
			c.out.append(piece)
			n += len(piece)
			c.post()
		}
		if n == len(p) {
			return n, nil
		}
		c.waitToWrite()
	}
}

// writable tells why nothing can be written, if so.
func (c *Conn) writable() error {
	switch {
	case c.closed:
		return c.opError("write", net.ErrClosed)
	case c.writeBy.past:
		return c.opError("write", os.ErrDeadlineExceeded)
	case c.sendError != nil:
		return c.opError("write", c.sendError)
	case c.writeShut:
		return c.opError("write", syscall.EPIPE)
	}
	return nil
}

func (c *Conn) wrote() {
	c.writing = false
	if c.writers > 0 {
		c.canWrite.Broadcast()
	}
}

// Close sends what was written, then ends the connection; it does not wait for that. Reads and writes that wait, and all
// later ones, end with net.ErrClosed.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.close(); err != nil {
		return err
	}
	c.in.reset()
	c.post()
	return nil
}

// CloseWrite tells the peer the end after what was written. The connection can still be read.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.writeShut = true
	c.canWrite.Broadcast()
	c.post()
	return nil
}

// CloseRead receives no more. What has come can still be read, then comes io.EOF.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.readShut = true
	c.canRead.Broadcast()
	c.post()
	return nil
}

// post has the worker look what the connection wants.
func (c *Conn) post() { c.postFor(c) }

// From here on: on the worker.

// work gives the worker what the program did since the last tick.
func (c *Conn) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = false
	if c.over {
		return
	}
	if c.closed && c.resets && !c.detached {
		c.q.Abort()
		return
	}
	if p := c.out.bytes(); len(p) > 0 {
		if err := c.q.WriteThen(p, c.sentFn); err != nil {
			c.failWrites(cause(err))
		} else {
			c.owed += len(p)
		}
		c.out.reset()
	}
	if c.writeShut && !c.shut {
		c.shut = true
		c.q.CloseWrite()
	}
	if c.readShut && !c.deaf {
		c.deaf = true
		c.q.CloseRead()
	}
	if c.detached {
		return
	}
	if c.closed {
		c.q.Close()
	} else if c.paused && c.in.len() <= c.limits.readLow {
		c.paused = false
		c.q.Resume()
	}
}

func (c *Conn) received(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && !c.detached || c.readShut {
		return
	}
	c.in.append(data)
	if !c.paused && !c.detached && c.in.len() >= c.limits.read {
		c.paused = true
		c.q.Pause()
	}
	c.stir(c.readers > 0, false)
}

func (c *Conn) peerEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eof = true
	c.stir(true, false)
}

// sent hears that a send has ended.
func (c *Conn) sent(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.owed -= n
		c.stir(false, c.writers > 0 && c.owed+c.out.len() <= c.limits.writeLow)
	case !errors.Is(err, syscall.ECANCELED): // a send cancelled by the connection's end hears the reason in ended
		c.failWrites(cause(err))
	}
}

func (c *Conn) failWrites(err error) {
	if c.sendError == nil {
		c.sendError = err
	}
	c.stir(false, true)
}

// ended is the last call: the connection has gone because of err.
func (c *Conn) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.out.reset()
	c.readError = cause(err)
	if c.sendError == nil {
		c.sendError = c.readError
	}
	c.wakeAll()
}
