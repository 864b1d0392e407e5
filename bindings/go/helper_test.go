// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"quoit/internal/testkit"
)

const patience = testkit.Patience

var pattern = testkit.Pattern

// each runs a test on every driver that this machine has, or on the one that QUOIT_DRIVER forces.
func each(t *testing.T, body func(t *testing.T, rt *Runtime)) {
	testkit.EachDriver[Driver](t, func(name string) (*Runtime, error) {
		driver, err := ParseDriver(name)
		if err != nil {
			return nil, err
		}
		return NewRuntime(RuntimeOptions{Driver: driver})
	}, body)
}

// running is a worker inside Run.
type running struct {
	*Worker
	t      *testing.T
	err    chan error
	ended  bool
	result error
}

// run starts a worker with a handler. It is stopped, and must end without error, when the test ends.
func run(t *testing.T, rt *Runtime, o WorkerOptions, h Handler) *running {
	t.Helper()
	w, err := rt.NewWorker(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Worker: w, t: t, err: make(chan error, 1)}
	go func() {
		defer close(r.err)
		r.err <- w.Run(context.Background(), h)
	}()
	t.Cleanup(func() {
		if !r.ended {
			r.Stop()
			if err := r.wait(); err != nil {
				t.Error("the worker ended with: ", err)
			}
		}
	})
	return r
}

// wait waits for the end of Run and gives its error.
func (r *running) wait() error {
	r.t.Helper()
	if r.ended {
		return r.result
	}
	select {
	case err, ok := <-r.err:
		r.ended, r.result = true, err
		if !ok {
			r.result = errGoexit
		}
	case <-time.After(patience):
		r.t.Fatal("the worker did not end")
	}
	return r.result
}

var errGoexit = fmt.Errorf("the goroutine of Run ended")

// do calls f on the worker and waits for it to call done.
func (r *running) do(f func(done func())) {
	r.t.Helper()
	over := make(chan struct{})
	if err := r.Post(func() { f(func() { close(over) }) }); err != nil {
		r.t.Fatal(err)
	}
	r.await(over)
}

func (r *running) await(over chan struct{}) {
	r.t.Helper()
	select {
	case <-over:
	case <-r.Done():
		r.t.Fatal("the worker ended: ", r.wait())
	case <-time.After(patience):
		r.t.Fatal("no answer in time")
	}
}

// listen makes the worker listen and gives the address.
func (r *running) listen(address string, h ConnHandler) (addr string) {
	r.t.Helper()
	var failed error
	r.do(func(done func()) {
		r.Listen(address, ListenOptions{}, h, func(l *Listener, err error) {
			if failed = err; err == nil {
				addr = l.Addr()
			}
			done()
		})
	})
	if failed != nil {
		r.t.Fatal(failed)
	}
	return addr
}

// echoHandler sends back what it receives, and counts.
type echoHandler struct {
	BaseHandler
	copies                                   bool // Write instead of SendLent
	opened, closed, messages, failures, size int
}

func (e *echoHandler) OnOpen(*Conn) { e.opened++ }

func (e *echoHandler) OnData(c *Conn, data []byte) {
	e.messages++
	e.size += len(data)
	if e.copies {
		c.Write(data)
	} else if err := c.SendLent(data); err != nil {
		panic(err)
	}
}

func (e *echoHandler) OnClose(_ *Conn, err error) {
	e.closed++
	if err != nil {
		e.failures++
	}
}

// dial connects with Go's own net package.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if len(addr) > 5 && addr[:5] == "unix:" {
		network, addr = "unix", addr[5:]
	}
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// roundTrip sends bytes and reads as many back, both at the same time.
func roundTrip(c net.Conn, sent []byte) error {
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		wrote <- err
	}()
	got := make([]byte, len(sent))
	if n, err := io.ReadFull(c, got); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", n, len(sent), err)
	}
	if err := <-wrote; err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("%d bytes came back changed", len(sent))
	}
	return nil
}

// eventually waits until a condition of the worker holds.
func (r *running) eventually(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var held bool
		r.do(func(done func()) {
			held = holds()
			done()
		})
		if held {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal("in vain waited for: ", what)
		}
		time.Sleep(time.Millisecond) // between looks, not instead of them
	}
}
