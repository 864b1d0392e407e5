// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// drained notes what it is told of a drain, and echoes.
type drained struct {
	hooks
	told []Drain
}

func (d *drained) OnDrain(told Drain) { d.told = append(d.told, told) }

func (d *drained) OnData(c *Conn, data []byte) { c.Write(data) }

func echoOf(t *testing.T, c net.Conn, text string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	back := make([]byte, len(text))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, back); err != nil || string(back) != text {
		t.Fatalf("echo of %q: %q, %v", text, back, err)
	}
}

// serving is a worker with one connection that has been used.
func serving(t *testing.T, rt *Runtime) (*drained, *running, net.Conn) {
	t.Helper()
	h := &drained{}
	w := run(t, rt, WorkerOptions{}, h)
	c := dial(t, w.listen("127.0.0.1:0", h))
	echoOf(t, c, "one")
	return h, w, c
}

func TestDrain(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h, w, c := serving(t, rt)
		w.Drain(time.Hour)
		echoOf(t, c, "two")
		c.Close()
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		if len(h.told) != 2 || h.told[0] != (Drain{Streams: 1}) || h.told[1] != (Drain{Over: true}) {
			t.Errorf("told %+v", h.told)
		}
		w.Drain(0) // it has ended: nothing happens
	})
}

func TestDrainWithoutTime(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h, w, c := serving(t, rt)
		w.Drain(20 * time.Millisecond)
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		c.Close()
		last := h.told[len(h.told)-1]
		if !last.Over || last.Streams != 1 || !errors.Is(last.Err, syscall.ETIMEDOUT) {
			t.Errorf("told %+v", h.told)
		}
	})
}
