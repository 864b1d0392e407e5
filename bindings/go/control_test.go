// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"quoit/internal/testkit"
)

// While a listener is paused connections wait in the backlog; resuming brings them, also when it comes at once.
func TestListenerPause(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		var l *Listener
		w.do(func(done func()) {
			w.Listen("127.0.0.1:0", ListenOptions{}, h, func(made *Listener, err error) {
				if err != nil {
					t.Error(err)
				}
				l = made
				l.OnEnd = func(error) { t.Error("pausing ended the listener") }
				done()
			})
		})
		addr := ""
		w.do(func(done func()) { addr = l.Addr(); l.Pause(); l.Pause(); done() })
		w.eventually("accepting has stopped", func() bool { return !l.accepting })
		c := dial(t, addr)
		got := make(chan error, 1)
		go func() { got <- roundTrip(c, []byte("waited")) }()
		w.do(func(done func()) { done() })
		w.do(func(done func()) {
			if h.opened != 0 {
				t.Error("a paused listener accepted")
			}
			l.Resume()
			done()
		})
		if err := <-got; err != nil {
			t.Error(err)
		}
		// Resumed before the pause came through, and paused again.
		w.do(func(done func()) { l.Pause(); l.Resume(); l.Pause(); l.Resume(); done() })
		if err := roundTrip(dial(t, addr), []byte("again")); err != nil {
			t.Error(err)
		}
		w.do(func(done func()) { l.OnEnd = nil; l.Pause(); l.Close(); l.Resume(); done() })
	})
}

// CloseRead brings the end, and leaves the way out open.
func TestCloseRead(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &eofHooks{eof: func(c *Conn) {
			c.Write([]byte("deaf, not mute"))
			c.Close()
		}}
		h.data = func(c *Conn, _ []byte) { c.CloseRead() }
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		c.Write([]byte("x"))
		if got, err := io.ReadAll(c); string(got) != "deaf, not mute" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestDialCancel(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		full := testkit.FullListener(t)
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		var got error
		var cancel func()
		over := make(chan struct{})
		w.do(func(done func()) {
			cancel = w.Dial(full, 0, h, func(_ *Conn, err error) { got = err; close(over) })
			done()
		})
		w.do(func(done func()) { cancel(); done() })
		w.await(over)
		if !errors.Is(got, syscall.ECANCELED) {
			t.Errorf("a cancelled dial told %v", got)
		}
		// Too late it does nothing, also when the entry is another op's by now.
		addr := w.listen("127.0.0.1:0", h)
		told := 0
		w.do(func(done func()) {
			cancel()
			cancel = w.Dial(addr, 0, h, func(c *Conn, err error) {
				if told++; err != nil {
					t.Error(err)
				}
				cancel()
				done()
			})
		})
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}
