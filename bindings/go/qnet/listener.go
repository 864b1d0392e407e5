// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"quoit"
)

// Listener accepts connections. It is a net.Listener: any goroutines may use it at once.
type Listener struct {
	net     *Net
	network string
	options quoit.ListenOptions
	addr    net.Addr
	parts   []*acceptor

	mu        sync.Mutex
	canAccept sync.Cond
	queue     []*Conn
	by        deadline
	closed    bool
	keeps     bool // adopted: the path stays
	failure   error
}

// acceptor is a listener's part on one worker.
type acceptor struct {
	*loop
	ln *Listener

	// Of the worker's goroutine.
	q      *quoit.Listener
	waking bool
	paused bool

	due bool // under the listener's lock: in the loop's list of who wants something
}

// Listen listens on an address of a network: "tcp", "tcp4", "tcp6" ("host:port", an empty host for all addresses, port 0
// for one that is free) or "unix" (a path, removed again by Close, or "@name"). With many workers each TCP connection goes
// to one that the kernel chooses.
func (n *Net) Listen(network, address string) (net.Listener, error) {
	return n.ListenContext(context.Background(), network, address)
}

// ListenContext is Listen that gives up resolving a name when ctx ends.
func (n *Net) ListenContext(ctx context.Context, network, address string) (net.Listener, error) {
	return n.listen(ctx, network, address, quoit.ListenOptions{})
}

func (n *Net) listen(ctx context.Context, network, address string, o quoit.ListenOptions) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: named{network, address}, Err: err}
	}
	if n.isClosed() {
		return fail(net.ErrClosed)
	}
	targets, err := bindTargets(ctx, network, address, streams)
	if err != nil {
		return fail(err)
	}
	ln := &Listener{net: n, network: network, options: o}
	ln.canAccept.L = &ln.mu
	for i, target := range targets {
		if err = ln.listenOn(target); err == nil {
			break
		}
		if i == len(targets)-1 || !lacksFamily(err) {
			return fail(err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		go ln.Close()
		return fail(net.ErrClosed)
	}
	n.listeners[ln] = struct{}{}
	return ln, nil
}

// bindTargets are the addresses to try in turn until one is of a family that the machine has.
func bindTargets(ctx context.Context, network, address string, networks map[string]int) ([]string, error) {
	version, known := networks[network]
	host, port, err := net.SplitHostPort(address)
	if !known || version < 0 || err != nil || host != "" {
		targets, err := resolve(ctx, network, address, "", networks)
		if err != nil {
			return nil, err
		}
		return targets[:1], nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, network, port)
	if err != nil {
		return nil, err
	}
	v4, v6 := "0.0.0.0:"+strconv.Itoa(number), "[::]:"+strconv.Itoa(number)
	switch version {
	case 4:
		return []string{v4}, nil
	case 6:
		return []string{v6}, nil
	}
	return []string{v6, v4}, nil
}

func lacksFamily(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// listenOn makes the parts; all of them or none.
func (ln *Listener) listenOn(target string) error {
	loops := ln.net.loops
	o := ln.options
	if ln.network == "unix" {
		loops = loops[:1]
	} else if len(loops) > 1 {
		o.Flags |= quoit.ListenReuseport
	}
	if ln.network == "tcp6" {
		o.Flags |= quoit.ListenV6Only
	}
	for _, l := range loops {
		bound, err := ln.listenPart(l, target, o)
		if err != nil {
			ln.closeParts()
			return err
		}
		if ln.addr == nil {
			ln.addr = netAddr(ln.network, bound)
			target = bound.String() // the others share the port that this one was given
		}
	}
	return nil
}

func (ln *Listener) listenPart(l *loop, target string, o quoit.ListenOptions) (bound quoit.Addr, err error) {
	a := &acceptor{loop: l, ln: ln}
	err = l.ask(func(done func(err error)) {
		l.w.Listen(target, o, a, func(q *quoit.Listener, err error) {
			if err == nil {
				a.q, bound = q, q.Local()
				q.OnEnd = a.onEnd
				l.acceptors[a] = struct{}{}
			}
			done(err)
		})
	})
	if err != nil {
		return quoit.Addr{}, err
	}
	ln.parts = append(ln.parts, a)
	return bound, nil
}

// ask is that of the part's loop, unless the listener is closed.
func (ln *Listener) ask(a *acceptor, f func(done func(err error))) error {
	ln.mu.Lock()
	closed := ln.closed
	ln.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return a.loop.ask(f)
}

// Accept takes the next connection (a *Conn), and waits for one if there is none.
func (ln *Listener) Accept() (net.Conn, error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for {
		switch {
		case ln.closed:
			return nil, ln.opError("accept", net.ErrClosed)
		case ln.by.past:
			return nil, ln.opError("accept", os.ErrDeadlineExceeded)
		case len(ln.queue) > 0:
			c := ln.queue[0]
			ln.queue[0] = nil
			ln.queue = ln.queue[1:]
			if len(ln.queue) == ln.net.limits.accept/2 {
				ln.post()
			}
			return c, nil
		case ln.failure != nil:
			return nil, ln.opError("accept", ln.failure)
		}
		ln.canAccept.Wait()
	}
}

// Close stops accepting, and ends what was not accepted yet. Connections that were live on.
func (ln *Listener) Close() error {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return ln.opError("close", net.ErrClosed)
	}
	ln.closed = true
	ln.by.set(time.Time{}, &ln.canAccept)
	if path, ok := ln.addr.(*net.UnixAddr); ok && !ln.keeps && path.Name != "" && path.Name[0] != '@' {
		os.Remove(path.Name)
	}
	for _, c := range ln.queue {
		c.Close()
	}
	ln.queue = nil
	ln.canAccept.Broadcast()
	ln.closeParts()
	ln.net.forget(ln)
	return nil
}

func (ln *Listener) closeParts() {
	for _, a := range ln.parts {
		a := a
		a.w.Post(func() {
			a.q.Close()
			delete(a.acceptors, a)
		})
	}
}

// Addr is the address that was bound: a *net.TCPAddr or *net.UnixAddr, not to be changed.
func (ln *Listener) Addr() net.Addr { return ln.addr }

// SetDeadline ends Accept at t with os.ErrDeadlineExceeded, also one that waits already; the zero time does not.
func (ln *Listener) SetDeadline(t time.Time) error {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return ln.opError("set", net.ErrClosed)
	}
	ln.by.set(t, &ln.canAccept)
	return nil
}

func (ln *Listener) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: ln.network, Addr: ln.addr, Err: err}
}

// post has the workers look whether they may accept again.
func (ln *Listener) post() {
	for _, a := range ln.parts {
		if !a.due {
			a.due = true
			a.loop.post(a)
		}
	}
}

// fail ends Accept with err.
func (ln *Listener) fail(err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.failure == nil {
		ln.failure = cause(err)
	}
	ln.canAccept.Broadcast()
}

// From here on: on the worker.

// OnOpen queues a new connection for Accept.
func (a *acceptor) OnOpen(q *quoit.Conn) {
	c := a.adopt(q, a.ln.network)
	a.ln.mu.Lock()
	closed := a.ln.closed
	if !closed {
		a.ln.queue = append(a.ln.queue, c)
	}
	full := len(a.ln.queue) >= a.ln.net.limits.accept
	a.ln.mu.Unlock()
	if closed {
		c.Close()
		return
	}
	if full && !a.paused {
		a.paused = true
		a.q.Pause()
	}
	if !a.waking {
		a.waking = true
		a.notify(a)
	}
}

// work accepts again once half of the queue is free.
func (a *acceptor) work() {
	a.ln.mu.Lock()
	a.due = false
	again := a.paused && len(a.ln.queue) <= a.ln.net.limits.accept/2
	a.ln.mu.Unlock()
	if again {
		a.paused = false
		a.q.Resume()
	}
}

func (a *acceptor) wakeUp() {
	a.waking = false
	a.ln.canAccept.Broadcast()
}

func (a *acceptor) onEnd(err error) {
	if err != nil {
		a.ln.fail(err)
	}
}
