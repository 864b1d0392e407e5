// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"net"
	"time"

	"quoit"
)

// Dial connects to an address of a network: "tcp", "tcp4", "tcp6" ("host:port") or "unix" (a path, or "@name"). "udp", "udp4",
// "udp6" and "unixgram" make a PacketConn that hears and addresses that peer alone.
func (n *Net) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialTimeout is Dial that gives up after some time.
func (n *Net) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return n.DialContext(ctx, network, address)
}

// DialContext is Dial that gives up when ctx ends; what ends later does not touch the connection. A name with many
// addresses is tried one by one; the error is that of the first. It fits http.Transport.DialContext.
func (n *Net) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dial(ctx, network, address, quoit.DialOptions{})
}

func (n *Net) dial(ctx context.Context, network, address string, o quoit.DialOptions) (net.Conn, error) {
	if err := n.check("dial", network, address); err != nil {
		return nil, err
	}
	var first error
	networks, dialOne := streams, n.dialOne
	if _, ok := datagrams[network]; ok {
		networks, dialOne = datagrams, n.dialPacket
	}
	targets, err := resolve(ctx, network, address, "localhost", networks)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: named{network, address}, Err: err}
	}
	for _, target := range targets {
		c, err := dialOne(ctx, network, target, o)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = &net.OpError{Op: "dial", Net: network, Addr: named{network, target}, Err: err}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// dialling is one attempt. All but `over` is the worker's until over is closed.
type dialling struct {
	over   chan struct{}
	conn   *Conn
	err    error
	ended  bool
	gaveUp bool
	cancel func()
}

func (n *Net) dialOne(ctx context.Context, network, target string, o quoit.DialOptions) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := n.loops[int(n.next.Add(1))%len(n.loops)]
	d := &dialling{over: make(chan struct{})}
	if err := l.w.Post(func() { d.start(l, network, target, o) }); err != nil {
		return nil, cause(err)
	}
	select {
	case <-d.over:
		if d.err != nil {
			return nil, d.err
		}
		return d.conn, nil
	case <-l.w.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		l.w.Post(d.giveUp)
		return nil, ctx.Err()
	}
}

func (d *dialling) start(l *loop, network, target string, o quoit.DialOptions) {
	d.cancel = l.w.DialWith(target, o, l, func(q *quoit.Conn, err error) {
		if err != nil {
			d.err = cause(err)
		} else {
			d.conn = l.adopt(q, network)
			if d.gaveUp || l.net.isClosed() {
				d.conn.Close()
			}
		}
		d.ended = true
		close(d.over)
	})
}

// giveUp ends an attempt that nobody waits for, also one that has just succeeded.
func (d *dialling) giveUp() {
	d.gaveUp = true
	switch {
	case d.conn != nil:
		d.conn.Close()
	case !d.ended:
		d.cancel()
	}
}
