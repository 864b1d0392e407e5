// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// mailHandler notes what its sockets are told.
type mailHandler struct {
	heard  func(s *DatagramSocket, d *Datagram)
	errors []error
	closed int
}

func (h *mailHandler) OnDatagram(s *DatagramSocket, d *Datagram) { h.heard(s, d) }
func (h *mailHandler) OnError(_ *DatagramSocket, err error, goesOn bool) {
	h.errors = append(h.errors, fmt.Errorf("goes on %v: %w", goesOn, err))
}
func (h *mailHandler) OnClose(*DatagramSocket) { h.closed++ }

func (r *running) bind(address string, o BindOptions, h DatagramHandler) (s *DatagramSocket) {
	r.t.Helper()
	var failed error
	r.do(func(done func()) {
		r.Bind(address, o, h, func(made *DatagramSocket, err error) { s, failed = made, err; done() })
	})
	if failed != nil {
		r.t.Fatal(failed)
	}
	return s
}

// A datagram goes there and back, whole or truncated as asked; a refusal passes; the end of the socket is told once, also
// when it is the worker's.
func TestDatagrams(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		told := make(chan string, 10)
		echo := &mailHandler{heard: func(s *DatagramSocket, d *Datagram) { s.SendTo(d.Data, &d.From, nil) }}
		client := &mailHandler{heard: func(s *DatagramSocket, d *Datagram) {
			told <- fmt.Sprintf("%s of %d from %v", d.Data, d.Length, d.From)
		}}
		w := run(t, rt, WorkerOptions{}, &hooks{})
		server := w.bind("127.0.0.1:0", BindOptions{}, echo)
		there := ""
		w.do(func(done func()) { there = server.Local().String(); done() })
		c := w.bind("", BindOptions{Peer: there, MaxDatagram: 4}, client)
		for _, text := range []string{"", "four", "longer"} {
			sent := -1
			w.do(func(done func()) {
				c.SendTo([]byte(text), nil, func(n int, err error) {
					if sent = n; err != nil {
						t.Error(err)
					}
					done()
				})
			})
			want := fmt.Sprintf("%.4s of %d from %s", text, len(text), there)
			if got := <-told; got != want || sent != len(text) {
				t.Errorf("sent %d, got %q, want %q", sent, got, want)
			}
		}
		w.do(func(done func()) {
			if c.Remote().String() != there {
				t.Errorf("the peer is %v", c.Remote())
			}
			server.Close()
			server.Close()
			server.SendTo(nil, nil, func(_ int, err error) {
				if !errors.Is(err, EClosing) {
					t.Errorf("sending after Close: %v", err)
				}
			})
			done()
		})
		w.eventually("the end of the server", func() bool { return echo.closed == 1 })
		w.do(func(done func()) { c.SendTo([]byte("?"), nil, func(int, error) { done() }) })
		w.eventually("the refusal", func() bool { return len(client.errors) == 1 })
		if err := client.errors[0]; !errors.Is(err, syscall.ECONNREFUSED) || err.Error()[:12] != "goes on true" {
			t.Error(err)
		}
		again := w.bind(there, BindOptions{}, echo)
		w.do(func(done func()) { c.SendTo([]byte("on"), nil, nil); done() })
		if got := <-told; got != "on of 2 from "+there {
			t.Errorf("after the refusal: %q", got)
		}
		_ = again
		w.Stop()
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		if client.closed != 1 || echo.closed != 2 {
			t.Errorf("ends told: %d, %d", client.closed, echo.closed)
		}
	})
}
