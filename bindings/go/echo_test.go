// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// echoClients runs n clients that each send messages of the given sizes and check what comes back.
func echoClients(t *testing.T, addr string, n int, sizes []int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		c := dial(t, addr)
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			defer c.Close()
			for j, size := range sizes {
				if err := roundTrip(c, pattern(size, int64(i*1000+j))); err != nil {
					t.Errorf("client %d, message %d: %v", i, j, err)
					return
				}
			}
		}(i)
	}
	wg.Wait()
}

func TestEcho(t *testing.T) {
	sizes := []int{1, 2, 100, 2047, 2048, 2049, 65536, 1 << 20}
	places := map[string]func(t *testing.T) string{
		"v4":       func(*testing.T) string { return "127.0.0.1:0" },
		"v6":       func(*testing.T) string { return "[::1]:0" },
		"unix":     func(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "s") },
		"abstract": func(t *testing.T) string { return "unix:@quoit-go-" + fmt.Sprint(syscall.Getpid(), t.Name()) },
	}
	each(t, func(t *testing.T, rt *Runtime) {
		for name, place := range places {
			for _, copies := range []bool{false, true} {
				if copies && name != "v4" {
					continue // the way of the bytes inside is the same
				}

				t.Run(fmt.Sprintf("%s/copies=%v", name, copies), func(t *testing.T) {
					h := &echoHandler{copies: copies}
					w := run(t, rt, WorkerOptions{}, h)
					const n = 10
					echoClients(t, w.listen(place(t), h), n, sizes)
					w.eventually("all connections closed", func() bool { return h.closed == n })
					want := 0
					for _, size := range sizes {
						want += n * size
					}
					if h.opened != n || h.size != want || h.failures != 0 {
						t.Errorf("opened %d, failed %d, bytes %d of %d", h.opened, h.failures, h.size, want)
					}
				})
			}
		}
	})
}

// Arrays and pools of the smallest sizes: every path that runs out of something is taken.
func TestEchoNarrow(t *testing.T) {
	narrow := map[string]WorkerOptions{
		"16 buffers": {RecvBuffers: 16},
		"1 event":    {EventsMax: 1},
		"1 op":       {OpsMax: 1, EventsMax: 4},
		"scratch":    {ScratchLen: 4096, RecvBuffers: 2, RecvBufferSize: 64},
		"grease":     {Grease: true},
	}
	each(t, func(t *testing.T, rt *Runtime) {
		for name, o := range narrow {
			for _, copies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/copies=%v", name, copies), func(t *testing.T) {
					h := &echoHandler{copies: copies}
					w := run(t, rt, o, h)
					echoClients(t, w.listen("127.0.0.1:0", h), 30, []int{1, 3000, 70000, 5})
					w.eventually("30 connections closed", func() bool { return h.closed == 30 })
					if h.failures != 0 {
						t.Errorf("%d connections failed", h.failures)
					}
				})
			}
		}
	})
}

// producer sends total bytes in pieces, the next when the last has left; then it closes.
type producer struct {
	BaseHandler
	total, piece int
	closeErr     error
	closed       chan struct{}
}

func (p *producer) byteAt(i int) byte { return byte(i ^ i>>8 ^ i>>16) }

func (p *producer) OnOpen(c *Conn) { p.more(c, 0) }

func (p *producer) more(c *Conn, offset int) {
	if offset >= p.total {
		c.Close()
		return
	}
	n := p.piece
	if n > p.total-offset {
		n = p.total - offset
	}
	buf := make([]byte, n)
	for i := range buf {
		buf[i] = p.byteAt(offset + i)
	}
	err := c.WriteThen(buf, func(sent int, err error) {
		if err != nil || sent != n {
			panic(fmt.Sprint("sent ", sent, " of ", n, ": ", err))
		}
		p.more(c, offset+n)
	})
	if err != nil {
		panic(err)
	}
}

func (p *producer) OnClose(_ *Conn, err error) { p.closeErr = err; close(p.closed) }

func TestBigTransfer(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		for _, piece := range []int{1000, 300 << 10, 3 << 20} {
			t.Run(fmt.Sprint("piece ", piece), func(t *testing.T) {
				p := &producer{total: 10<<20 + 7, piece: piece, closed: make(chan struct{})}
				if piece == 1000 {
					p.total = 1<<20 + 7
				}
				w := run(t, rt, WorkerOptions{}, p)
				c := dial(t, w.listen("127.0.0.1:0", p))
				got, err := io.ReadAll(c)
				if err != nil || len(got) != p.total {
					t.Fatalf("%d of %d bytes: %v", len(got), p.total, err)
				}
				for i, b := range got {
					if b != p.byteAt(i) {
						t.Fatalf("byte %d differs", i)
					}
				}
				c.Close()
				w.await(p.closed)
				if p.closeErr != nil {
					t.Error(p.closeErr)
				}
			})
		}
	})
}

// A peer that reads nothing for a while blocks sends; what it owes arrives whole in the end.
func TestSlowReader(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h)).(*net.TCPConn)
		sent := pattern(32<<20, 1)
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(sent)
			c.CloseWrite()
			wrote <- err
		}()
		// The server is stuck when it has read less than was sent and yet does not read on.
		last := -1
		w.eventually("a blocked echo", func() bool {
			stuck := h.size > 0 && h.size == last
			last = h.size
			return stuck
		})
		sum := sha256.New()
		n, err := io.Copy(sum, c)
		if err != nil || n != int64(len(sent)) {
			t.Fatalf("%d of %d bytes came back: %v", n, len(sent), err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		if want := sha256.Sum256(sent); !bytes.Equal(sum.Sum(nil), want[:]) {
			t.Error("bytes came back changed")
		}
	})
}

// Write beyond the limit ends the connection with ENOBUFS; WriteThen tells it and lets the connection live.
func TestSendLimit(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		closed := make(chan error, 1)
		conns := make(chan *Conn, 2)
		h := &hooks{
			open:  func(c *Conn) { conns <- c },
			close: func(_ *Conn, err error) { closed <- err },
		}
		w := run(t, rt, WorkerOptions{SendLimit: 1 << 20, ScratchLen: 65536}, h)
		addr := w.listen("127.0.0.1:0", h)
		big := make([]byte, 12<<20)

		dial(t, addr)
		c := <-conns
		var told error
		w.do(func(done func()) {
			c.WriteThen(big, func(_ int, err error) { told = err; done() })
		})
		if !errors.Is(told, syscall.ENOBUFS) {
			t.Errorf("WriteThen told %v", told)
		}
		w.do(func(done func()) { c.Write(big); done() })
		if err := <-closed; !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("OnClose told %v", err)
		}
	})
}

// The handler path allocates nothing per message.
func TestNoAllocations(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		buf := make([]byte, 64)
		exchange := func(n int) {
			for i := 0; i < n; i++ {
				if _, err := c.Write(buf); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					t.Fatal(err)
				}
			}
		}
		exchange(100)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		exchange(2000)
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > 200 {
			t.Errorf("%d allocations for 2000 messages", n)
		}
	})
}

// Many messages are served by one crossing when many connections are busy.
func TestCrossings(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		addr := w.listen("127.0.0.1:0", h)
		const conns, rounds = 50, 100
		var clients [conns]net.Conn
		for i := range clients {
			clients[i] = dial(t, addr)
		}
		buf := make([]byte, 64)
		before := w.Stats()
		for round := 0; round < rounds; round++ {
			for _, c := range clients {
				if _, err := c.Write(buf); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range clients {
				if _, err := io.ReadFull(c, buf); err != nil {
					t.Fatal(err)
				}
			}
		}
		after := w.Stats()
		messages := float64(conns * rounds)
		crossings := float64(after.Crossings - before.Crossings)
		calls := float64(after.SystemCalls - before.SystemCalls)
		t.Logf("%.3f crossings and %.3f system calls per message", crossings/messages, calls/messages)
		if crossings == 0 || crossings > messages {
			t.Errorf("%v crossings for %v messages", crossings, messages)
		}
		if after.BytesReceived-before.BytesReceived != conns*rounds*64 {
			t.Errorf("%d bytes received", after.BytesReceived-before.BytesReceived)
		}
	})
}
