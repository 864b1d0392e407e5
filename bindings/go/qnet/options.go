// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"time"

	"quoit"
)

// SocketOptions are the options that Listener, Dialer and their sockets share; zero means the kernel's default. A listener gives
// them to the connections that it accepts.
type SocketOptions struct {
	Delay             bool          // TCP: leave Nagle's algorithm on, which is off by default
	KeepAlive         time.Duration // TCP: ask a peer that was silent for so long whether it is there; 0 is never
	KeepAliveInterval time.Duration // and how often
	KeepAliveCount    int           // and after how many unanswered ones the connection ends
	UserTimeout       time.Duration // TCP: how long sent bytes may stay unacknowledged
	ReadBuffer        int           // the kernel's buffers, in bytes; it may take more, or less
	WriteBuffer       int
	TOS               int           // type of service or traffic class, 0 to 255
	Priority          int           // queueing priority
	BusyPoll          time.Duration // how long a receive may spin at the device
	// More are any others, set after those: quoit.SocketIncomingCPU, quoit.SocketMark and so on.
	More []quoit.SocketOption
}

func (o *SocketOptions) list() (list []quoit.SocketOption) {
	add := func(option uint32, value int64) {
		if value != 0 {
			list = append(list, quoit.SocketOption{Option: option, Value: value})
		}
	}
	if o.KeepAlive != 0 {
		add(quoit.SocketKeepalive, 1)
	}
	add(quoit.SocketKeepaliveIdle, int64(o.KeepAlive))
	add(quoit.SocketKeepaliveInterval, int64(o.KeepAliveInterval))
	add(quoit.SocketKeepaliveCount, int64(o.KeepAliveCount))
	add(quoit.SocketUserTimeout, int64(o.UserTimeout))
	add(quoit.SocketRecvBuffer, int64(o.ReadBuffer))
	add(quoit.SocketSendBuffer, int64(o.WriteBuffer))
	add(quoit.SocketTOS, int64(o.TOS))
	add(quoit.SocketPriority, int64(o.Priority))
	add(quoit.SocketBusyPoll, int64(o.BusyPoll))
	return append(list, o.More...)
}

// socketed is what an endpoint's worker has of it.
type socketed interface{ Handle() quoit.Handle }

func (c *endpoint) setOption(s func() socketed, option uint32, value int64) error {
	err := c.ask(func(done func(err error)) {
		c.l.w.SetOption(s().Handle(), quoit.SocketOption{Option: option, Value: value}, done)
	})
	if err != nil {
		return c.opError("set", err)
	}
	return nil
}

func (c *endpoint) option(s func() socketed, option uint32) (value int64, err error) {
	var got int64
	err = c.ask(func(done func(err error)) {
		var failed error
		got, failed = c.l.w.Option(s().Handle(), option)
		done(failed)
	})
	if err != nil {
		return 0, c.opError("get", err)
	}
	return got, nil
}

func (c *Conn) socket() socketed       { return c.q }
func (c *PacketConn) socket() socketed { return c.s }

// SetOption sets quoit.SocketNodelay and so on, at once. Switches are 0 or 1, times in ns, sizes in bytes. quoit.EField: this
// kind of socket has no such option, or the option no such value.
func (c *Conn) SetOption(option uint32, value int64) error {
	return c.setOption(c.socket, option, value)
}

// Option is the value that an option has now. quoit.EArgument: this kind of socket has none such.
func (c *Conn) Option(option uint32) (int64, error) { return c.option(c.socket, option) }

// SetOption sets quoit.SocketRecvBuffer and so on, as Conn.SetOption does.
func (c *PacketConn) SetOption(option uint32, value int64) error {
	return c.setOption(c.socket, option, value)
}

// Option is the value that an option has now, as Conn.Option tells it.
func (c *PacketConn) Option(option uint32) (int64, error) { return c.option(c.socket, option) }

func number(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// SetNoDelay turns Nagle's algorithm off (the default) or on, as that of net.TCPConn.
func (c *Conn) SetNoDelay(on bool) error { return c.SetOption(quoit.SocketNodelay, number(on)) }

// SetKeepAlive has a silent peer asked whether it is there, as that of net.TCPConn.
func (c *Conn) SetKeepAlive(on bool) error { return c.SetOption(quoit.SocketKeepalive, number(on)) }

// SetKeepAlivePeriod sets after what silence, and how often, as that of net.TCPConn.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if err := c.SetOption(quoit.SocketKeepaliveInterval, int64(d)); err != nil {
		return err
	}
	return c.SetOption(quoit.SocketKeepaliveIdle, int64(d))
}

// SetLinger with 0 makes Close drop what has not left and reset the connection; with less than 0, the default, Close sends it. More
// than 0 is refused: Close never waits.
func (c *Conn) SetLinger(seconds int) error {
	value := int64(seconds)
	if value < 0 {
		value = -1
	}
	if err := c.SetOption(quoit.SocketLinger, value); err != nil {
		return err
	}
	c.mu.Lock()
	c.resets = value == 0
	c.mu.Unlock()
	return nil
}

// SetReadBuffer sets the size of the kernel's receive buffer, as that of net.TCPConn.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.SetOption(quoit.SocketRecvBuffer, int64(bytes))
}

// SetWriteBuffer sets the size of the kernel's send buffer, as that of net.TCPConn.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.SetOption(quoit.SocketSendBuffer, int64(bytes))
}

// SetReadBuffer sets the size of the kernel's receive buffer, as that of net.UDPConn.
func (c *PacketConn) SetReadBuffer(bytes int) error {
	return c.SetOption(quoit.SocketRecvBuffer, int64(bytes))
}

// SetWriteBuffer sets the size of the kernel's send buffer, as that of net.UDPConn.
func (c *PacketConn) SetWriteBuffer(bytes int) error {
	return c.SetOption(quoit.SocketSendBuffer, int64(bytes))
}

// SetOption sets quoit.SocketDeferAccept and so on, as Conn.SetOption does, on every worker; connections that are accepted later
// begin with it.
func (ln *Listener) SetOption(option uint32, value int64) error {
	for _, a := range ln.parts {
		a := a
		err := ln.ask(a, func(done func(err error)) {
			a.w.SetOption(a.q.Handle(), quoit.SocketOption{Option: option, Value: value}, done)
		})
		if err != nil {
			return ln.opError("set", err)
		}
	}
	return nil
}

// Option is the value that an option has now on the first worker, as Conn.Option tells it.
func (ln *Listener) Option(option uint32) (value int64, err error) {
	var got int64
	a := ln.parts[0]
	err = ln.ask(a, func(done func(err error)) {
		var failed error
		got, failed = a.w.Option(a.q.Handle(), option)
		done(failed)
	})
	if err != nil {
		return 0, ln.opError("get", err)
	}
	return got, nil
}
