// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hooks is a Handler made of functions.
type hooks struct {
	boot  func(w *Worker) error
	open  func(c *Conn)
	data  func(c *Conn, data []byte)
	close func(c *Conn, err error)
	tick  func()
}

func (h *hooks) OnBoot(w *Worker) error {
	if h.boot != nil {
		return h.boot(w)
	}
	return nil
}

func (h *hooks) OnOpen(c *Conn) {
	if h.open != nil {
		h.open(c)
	}
}

func (h *hooks) OnData(c *Conn, data []byte) {
	if h.data != nil {
		h.data(c, data)
	}
}

func (h *hooks) OnClose(c *Conn, err error) {
	if h.close != nil {
		h.close(c, err)
	}
}

func (h *hooks) OnTick() {
	if h.tick != nil {
		h.tick()
	}
}

// eofHooks is hooks that also hears of the peer's end.
type eofHooks struct {
	hooks
	eof func(c *Conn)
}

func (h *eofHooks) OnEOF(c *Conn) { h.eof(c) }

func TestPeerResets(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		closed := make(chan error, 1)
		opened := make(chan struct{})
		h := &hooks{
			open:  func(*Conn) { close(opened) },
			close: func(_ *Conn, err error) { closed <- err },
		}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h)).(*net.TCPConn)
		w.await(opened)
		c.SetLinger(0)
		c.Close()
		if err := <-closed; !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, ClassClosed) {
			t.Errorf("OnClose told %v", err)
		}
	})
}

func TestAbort(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		closed := make(chan error, 1)
		h := &hooks{
			data: func(c *Conn, _ []byte) {
				c.Close()
				c.Abort() // also after Close
				c.Abort()
				if _, err := c.Write([]byte("late")); !errors.Is(err, EClosing) {
					t.Errorf("Write after Close: %v", err)
				}
				if err := c.WriteThen([]byte("late"), nil); !errors.Is(err, EClosing) {
					t.Errorf("WriteThen after Close: %v", err)
				}
			},
			close: func(_ *Conn, err error) { closed <- err },
		}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		c.Write([]byte("go away"))
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Errorf("OnClose told %v", err)
		}
	})
}

// What was written before Close arrives, then the end.
func TestWriteThenClose(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		want := pattern(3<<20, 9)
		h := &hooks{open: func(c *Conn) {
			for i := 0; i < len(want); i += 1 << 20 {
				c.Write(want[i : i+1<<20])
			}
			c.Close()
		}}
		w := run(t, rt, WorkerOptions{}, h)
		got, err := io.ReadAll(dial(t, w.listen("127.0.0.1:0", h)))
		if err != nil || string(got) != string(want) {
			t.Fatalf("%d of %d bytes: %v", len(got), len(want), err)
		}
	})
}

// A client that ends its side still gets its answer: by default what was written, with OnEOF what is written later.
func TestHalfClose(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		later := &eofHooks{eof: func(c *Conn) {
			c.Worker().After(5*time.Millisecond, func() {
				c.Write([]byte("later"))
				c.Close()
			})
		}}
		plain := &hooks{data: func(c *Conn, data []byte) { c.SendLent(data) }}
		w := run(t, rt, WorkerOptions{}, plain)
		for _, try := range []struct {
			h    ConnHandler
			want string
		}{{plain, "question"}, {later, "later"}} {
			c := dial(t, w.listen("127.0.0.1:0", try.h)).(*net.TCPConn)
			c.Write([]byte("question"))
			c.CloseWrite()
			if got, err := io.ReadAll(c); string(got) != try.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
	})
}

func TestCloseWrite(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		got := make(chan string, 10)
		h := &hooks{
			open: func(c *Conn) { c.Write([]byte("done")); c.CloseWrite() },
			data: func(_ *Conn, data []byte) { got <- string(data) },
		}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		if end, err := io.ReadAll(c); string(end) != "done" || err != nil {
			t.Fatalf("%q, %v", end, err)
		}
		c.Write([]byte("still"))
		if s := <-got; s != "still" {
			t.Errorf("received %q", s)
		}
	})
}

func TestPause(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		var conn *Conn
		received := 0
		h := &hooks{
			open: func(c *Conn) { conn = c },
			data: func(_ *Conn, data []byte) { received += len(data) },
		}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		w.eventually("open", func() bool { return conn != nil })
		w.do(func(done func()) { conn.Pause(); done() })
		c.Write(make([]byte, 10000))
		// A second connection that works shows that the bytes of the first had time to come.
		echo := &echoHandler{}
		echoClients(t, w.listen("127.0.0.1:0", echo), 1, []int{10, 20, 100000})
		w.do(func(done func()) {
			if received != 0 {
				t.Errorf("%d bytes in spite of Pause", received)
			}
			conn.Resume()
			done()
		})
		w.eventually("all bytes", func() bool { return received == 10000 })
	})
}

// A client of ours talks to a server of ours on another worker.
func TestDial(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		server := run(t, rt, WorkerOptions{}, h)
		addr := server.listen("127.0.0.1:0", h)
		client := run(t, rt, WorkerOptions{}, &hooks{})
		want := pattern(100000, 3)
		var got []byte
		over := make(chan struct{})
		talk := &hooks{
			open: func(c *Conn) { c.Write(want) },
			data: func(c *Conn, data []byte) {
				if got = append(got, data...); len(got) == len(want) {
					c.Close()
				}
			},
			close: func(_ *Conn, err error) {
				if err != nil {
					t.Error(err)
				}
				close(over)
			},
		}
		client.do(func(done func()) {
			client.Dial(addr, time.Minute, talk, func(c *Conn, err error) {
				if err != nil {
					t.Error(err)
				} else if c.RemoteAddr() != addr || client.Conn(c.Handle()) != c {
					t.Errorf("peer %s, dialled %s", c.RemoteAddr(), addr)
				} else if host, _, err := net.SplitHostPort(c.LocalAddr()); host != "127.0.0.1" || err != nil {
					t.Errorf("local address %s", c.LocalAddr())
				}
				done()
			})
		})
		client.await(over)
		if string(got) != string(want) {
			t.Errorf("%d of %d bytes came back right", len(got), len(want))
		}
	})
}

func TestDialFails(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		w := run(t, rt, WorkerOptions{}, &hooks{})
		tries := map[string]error{
			gone.Addr().String():    syscall.ECONNREFUSED,
			"unix:/nowhere/at/all":  syscall.ENOENT,
			"not an address at all": EArgument,
			"":                      EArgument,
		}
		for addr, want := range tries {
			var got error
			w.do(func(done func()) {
				w.Dial(addr, 0, &hooks{}, func(c *Conn, err error) { got = err; done() })
			})
			if !errors.Is(got, want) || !strings.Contains(got.Error(), addr) {
				t.Errorf("dialling %q: %v", addr, got)
			}
		}
	})
}

func TestListenFailsAndCloses(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		addr := w.listen("127.0.0.1:0", h)
		var again error
		w.do(func(done func()) {
			w.Listen(addr, ListenOptions{}, h, func(_ *Listener, err error) { again = err; done() })
		})
		if !errors.Is(again, syscall.EADDRINUSE) {
			t.Errorf("listening twice: %v", again)
		}

		ended := make(chan struct{})
		var second string
		var listener *Listener
		w.do(func(done func()) {
			w.Listen("127.0.0.1:0", ListenOptions{Flags: ListenReuseport}, h, func(l *Listener, err error) {
				if err != nil {
					t.Error(err)
				}
				l.OnEnd = func(err error) {
					if err != nil {
						t.Error(err)
					}
					close(ended)
				}
				listener, second = l, l.Addr()
				done()
			})
		})
		c := dial(t, second)
		if err := roundTrip(c, []byte("before")); err != nil {
			t.Error(err)
		}
		w.do(func(done func()) { listener.Close(); listener.Close(); done() })
		w.await(ended)
		if err := roundTrip(c, []byte("connections live on")); err != nil {
			t.Error(err)
		}
		w.eventually("the port is closed", func() bool {
			late, err := net.Dial("tcp", second)
			if err == nil {
				late.Close()
			}
			return err != nil
		})
	})
}

// A proxy sends the bytes of one connection on to another without copying them.
func TestProxy(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		back := &echoHandler{}
		server := run(t, rt, WorkerOptions{}, back)
		upstream := server.listen("127.0.0.1:0", back)
		// State of either side is the other side; bytes that come before the dial is done wait in a slice.
		forward := func(c *Conn, data []byte) {
			switch other := c.State.(type) {
			case *Conn:
				other.SendLent(data)
			case []byte:
				c.State = append(other, data...)
			}
		}
		hangUp := func(c *Conn, _ error) {
			if other, ok := c.State.(*Conn); ok {
				other.Close()
			}
		}
		upside := &hooks{data: forward, close: hangUp}
		proxy := &hooks{data: forward, close: hangUp, open: func(c *Conn) {
			c.State = []byte{}
			c.Worker().Dial(upstream, 0, upside, func(up *Conn, err error) {
				if err != nil {
					c.Abort()
					return
				}
				up.Write(c.State.([]byte))
				up.State, c.State = c, up
			})
		}}
		w := run(t, rt, WorkerOptions{}, proxy)
		addr := w.listen("127.0.0.1:0", proxy)
		echoClients(t, addr, 10, []int{1, 5000, 200000})
	})
}

func TestKeep(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		var kept []*Kept
		h := &hooks{}
		w := run(t, rt, WorkerOptions{}, h)
		h.data = func(c *Conn, data []byte) {
			w.Keep(data, func(k *Kept, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				kept = append(kept, k)
			})
			c.SendLent(data)
		}
		c := dial(t, w.listen("127.0.0.1:0", h))
		var want string
		for i := 0; i < 5; i++ {
			s := strings.Repeat(string(rune('a'+i)), 1000)
			want += s
			if err := roundTrip(c, []byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		total := func() string {
			s := ""
			for _, k := range kept {
				s += string(k.Bytes())
			}
			return s
		}
		w.eventually("all bytes kept", func() bool { return total() == want })
		if n := w.Stats().BuffersKept; n == 0 {
			t.Error("no buffer counts as kept")
		}
		w.do(func(done func()) {
			for _, k := range kept {
				k.Release()
				k.Release()
				if k.Bytes() != nil {
					t.Error("bytes after Release")
				}
			}
			w.Keep([]byte("not lent"), func(_ *Kept, err error) {
				if !errors.Is(err, ERange) {
					t.Errorf("keeping foreign bytes: %v", err)
				}
			})
			done()
		})
		w.eventually("none kept", func() bool { return w.Stats().BuffersKept == 0 })
	})
}
