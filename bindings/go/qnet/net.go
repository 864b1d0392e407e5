// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"quoit"
)

// Options are those of a Net; zero means the default.
type Options struct {
	// Workers is how many workers carry the connections, each on a thread of its own. Default 1.
	Workers int
	// ReadBuffer is how many bytes may wait to be read before a connection stops receiving; what one tick of the
	// worker brings may come on top. Default 64 KiB.
	ReadBuffer int
	// WriteBuffer is how many written bytes a connection may owe before Write waits. Default 256 KiB.
	WriteBuffer int
	// AcceptQueue is how many connections may wait for Accept before a listener stops accepting; what the kernel has
	// accepted by then comes on top. Default 128.
	AcceptQueue int
	// Worker are the options of each worker.
	Worker quoit.WorkerOptions
}

// limits are what Options say about each connection, and where waiting goes on again.
type limits struct{ read, readLow, write, writeLow, accept int }

const sendLimitDefault = 4 << 20 // of a worker

func (o Options) limits() (limits, error) {
	sendLimit := o.Worker.SendLimit
	if sendLimit == 0 {
		sendLimit = sendLimitDefault
	}
	for _, option := range []struct {
		name     string
		value    *int
		standard int
		most     uint64
	}{
		{"Workers", &o.Workers, 1, 255},
		{"ReadBuffer", &o.ReadBuffer, 64 << 10, 1 << 30},
		{"WriteBuffer", &o.WriteBuffer, 256 << 10, sendLimit},
		{"AcceptQueue", &o.AcceptQueue, 128, 1 << 20},
	} {
		if *option.value == 0 {
			*option.value = option.standard
			if uint64(option.standard) > option.most {
				*option.value = int(option.most)
			}
		}
		if *option.value < 0 || uint64(*option.value) > option.most {
			return limits{}, fmt.Errorf("qnet: Options.%s is %d: it must be from 1 to %d", option.name, *option.value, option.most)
		}
	}
	return limits{o.ReadBuffer, o.ReadBuffer / 2, o.WriteBuffer, o.WriteBuffer / 2, o.AcceptQueue}, nil
}

// Net is a set of workers that carry connections for any goroutine. Its methods may be called by any goroutine.
type Net struct {
	limits limits
	loops  []*loop
	next   atomic.Uint32 // whose turn it is to carry a dialled connection

	ended sync.WaitGroup // the workers' goroutines
	once  sync.Once
	err   error // what a worker ended with, for Close

	mu        sync.Mutex
	closed    bool
	listeners map[*Listener]struct{}
}

// New starts the workers of a Net.
func New(rt *quoit.Runtime, o Options) (*Net, error) {
	limits, err := o.limits()
	if err != nil {
		return nil, err
	}
	n := &Net{limits: limits, listeners: map[*Listener]struct{}{}}
	for i := 0; i == 0 || i < o.Workers; i++ {
		w, err := rt.NewWorker(o.Worker)
		if err != nil {
			n.Close()
			return nil, err
		}
		l := newLoop(n, w)
		n.loops = append(n.loops, l)
		n.ended.Add(1)
		go func() {
			defer n.ended.Done()
			if err := l.run(); err != nil {
				n.mu.Lock()
				n.err = err
				n.mu.Unlock()
			}
		}()
	}
	return n, nil
}

// Workers are those that carry the connections, for their statistics.
func (n *Net) Workers() []*quoit.Worker {
	workers := make([]*quoit.Worker, len(n.loops))
	for i, l := range n.loops {
		workers[i] = l.w
	}
	return workers
}

// Close ends every listener and connection at once, with net.ErrClosed, then the workers, and waits for them. What was
// written and has not left is dropped: see Shutdown. It returns what a worker ended with, if that was an error.
func (n *Net) Close() error {
	n.closeListeners()
	n.once.Do(func() {
		for _, l := range n.loops {
			l.w.Stop()
		}
	})
	n.ended.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Shutdown closes every listener and connection in order, waits until what was written has left and each peer has
// closed too (at most quoit.WorkerOptions.CloseTimeoutNs without progress), or until ctx ends, whose error it then
// returns. Then it is Close. It does not wait for those who use connections: an http.Server has a Shutdown of its own.
func (n *Net) Shutdown(ctx context.Context) error {
	n.closeListeners()
	idle := make([]chan struct{}, len(n.loops))
	for i, l := range n.loops {
		l, last := l, make(chan struct{})
		idle[i] = last
		l.w.Post(func() { // a worker that takes it no more has ended: Done tells
			for c := range l.conns {
				c.Close()
			}
			for c := range l.packetConns {
				c.Close()
			}
			l.whenIdle(func() { close(last) })
		})
	}
	var late error
	for i, l := range n.loops {
		select {
		case <-idle[i]:
		case <-l.w.Done():
		case <-ctx.Done():
			late = ctx.Err()
		}
	}
	if err := n.Close(); err != nil {
		return err
	}
	return late
}

func (n *Net) closeListeners() {
	n.mu.Lock()
	n.closed = true
	list := make([]*Listener, 0, len(n.listeners))
	for ln := range n.listeners {
		list = append(list, ln)
	}
	n.mu.Unlock()
	for _, ln := range list {
		ln.Close()
	}
}

func (n *Net) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// check refuses what was asked of a Net that is closed.
func (n *Net) check(op, network, address string) error {
	if n.isClosed() {
		return &net.OpError{Op: op, Net: network, Addr: named{network, address}, Err: net.ErrClosed}
	}
	return nil
}

func (n *Net) forget(ln *Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, ln)
}
