// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var errBoom = errors.New("boom")

// A panic anywhere in a handler stops the worker; Run tells it with the stack of the place.
func TestPanics(t *testing.T) {
	boom := func() { panic(errBoom) }
	places := map[string]func(w *running, h *hooks){
		"OnOpen":  func(w *running, h *hooks) { h.open = func(*Conn) { boom() } },
		"OnData":  func(w *running, h *hooks) { h.data = func(*Conn, []byte) { boom() } },
		"OnClose": func(w *running, h *hooks) { h.close = func(*Conn, error) { boom() } },
		"OnTick":  func(w *running, h *hooks) { h.tick = boom },
		"Post":    func(w *running, h *hooks) { w.Post(boom) },
		"After":   func(w *running, h *hooks) { w.After(time.Millisecond, boom) },
		"done": func(w *running, h *hooks) {
			w.Open("/", OpenRead|OpenDirectory, 0, func(*File, error) { boom() })
		},
	}
	each(t, func(t *testing.T, rt *Runtime) {
		for name, arm := range places {
			t.Run(name, func(t *testing.T) {
				h := &hooks{}
				w := run(t, rt, WorkerOptions{}, h)
				addr := w.listen("127.0.0.1:0", h)
				armed := make(chan struct{})
				w.Post(func() { arm(w, h); close(armed) })
				<-armed
				if strings.HasPrefix(name, "On") && name != "OnTick" {
					c := dial(t, addr)
					c.Write([]byte("x"))
					c.Close()
				}
				err := w.wait()
				var p *PanicError
				if !errors.As(err, &p) || !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "worker_test.go") {
					t.Fatalf("Run returned %v", err)
				}
			})
		}
		t.Run("OnBoot", func(t *testing.T) {
			w := run(t, rt, WorkerOptions{}, &hooks{boot: func(*Worker) error { panic("boot") }})
			var p *PanicError
			if err := w.wait(); !errors.As(err, &p) || p.Value != "boot" {
				t.Errorf("Run returned %v", err)
			}
		})
		t.Run("OnBoot fails", func(t *testing.T) {
			w := run(t, rt, WorkerOptions{}, &hooks{boot: func(*Worker) error { return errBoom }})
			if err := w.wait(); err != errBoom {
				t.Errorf("Run returned %v", err)
			}
		})
		t.Run("Goexit", func(t *testing.T) {
			w := run(t, rt, WorkerOptions{}, &hooks{})
			w.Post(runtime.Goexit)
			if err := w.wait(); err != errGoexit {
				t.Errorf("Run returned %v", err)
			}
			<-w.Done()
		})
	})
}

func TestStop(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		opened := make(chan struct{})
		closed := make(chan error, 1)
		h := &hooks{
			open:  func(*Conn) { close(opened) },
			close: func(_ *Conn, err error) { closed <- err },
		}
		w := run(t, rt, WorkerOptions{}, h)
		dial(t, w.listen("127.0.0.1:0", h))
		w.await(opened)
		if err := rt.Close(); !errors.Is(err, EBusy) {
			t.Errorf("closing the runtime of a worker that runs: %v", err)
		}
		w.Stop()
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		if err := <-closed; err == nil {
			t.Error("OnClose told no error for a connection that Stop ended")
		}
		if err := w.Run(context.Background(), h); !errors.Is(err, EClosed) {
			t.Errorf("a second Run: %v", err)
		}
		if err := w.Post(func() {}); !errors.Is(err, EClosed) {
			t.Errorf("a late Post: %v", err)
		}
		if s := w.Stats(); s.Accepts != 1 || s.Ticks == 0 || s.Crossings < s.Ticks {
			t.Errorf("final statistics %+v", s)
		}
		w.Stop()
	})
}

func TestContext(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		for _, before := range []bool{true, false} {
			w, err := rt.NewWorker(WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if before {
				cancel()
			}
			h := &hooks{boot: func(w *Worker) error {
				w.After(10*time.Millisecond, cancel)
				return nil
			}}
			if err := w.Run(ctx, h); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRuntimeClosed(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		own, err := NewRuntime(RuntimeOptions{Driver: rt.Driver()})
		if err != nil {
			t.Fatal(err)
		}
		if own.DriverReason() == "" {
			t.Error("no reason for the driver")
		}
		never, err := own.NewWorker(WorkerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
		if err := own.Close(); err != nil {
			t.Error("closing twice: ", err)
		}
		if err := never.Run(context.Background(), &hooks{}); !errors.Is(err, EClosed) {
			t.Errorf("running a worker of a closed runtime: %v", err)
		}
		if _, err := own.NewWorker(WorkerOptions{}); !errors.Is(err, EClosed) {
			t.Errorf("a worker of a closed runtime: %v", err)
		}
		if _, _, ok := own.ReadLog(); ok || own.Driver() != DriverAuto || own.DriverReason() != "" {
			t.Error("a closed runtime tells something")
		}
	})
}

// Methods of a worker that are called from elsewhere while it sleeps say what is wrong.
func TestWrongGoroutine(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w, err := rt.NewWorker(WorkerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "Worker.Post") {
				t.Errorf("recovered %q", text)
			}
		}()
		w.After(time.Second, func() {})
	})
}

func TestPost(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		const senders, each = 20, 2000
		w := run(t, rt, WorkerOptions{}, &hooks{})
		var last [senders]int
		count := 0
		var wg sync.WaitGroup
		for s := 0; s < senders; s++ {
			wg.Add(1)
			go func(s int) {
				defer wg.Done()
				for i := 1; i <= each; i++ {
					i := i
					err := w.Post(func() {
						if last[s] != i-1 {
							t.Errorf("sender %d: %d came after %d", s, i, last[s])
						}
						last[s] = i
						count++
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			}(s)
		}
		wg.Wait()
		w.eventually("all posts", func() bool { return count == senders*each })
	})
}

// What Post accepted runs, also when the worker is stopped at the same time.
func TestPostWhileStopping(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		var refused int32
		for round := 0; round < 20; round++ {
			w := run(t, rt, WorkerOptions{}, &hooks{})
			var accepted, ran int32
			var wg sync.WaitGroup
			for s := 0; s < 8; s++ {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for {
						err := w.Post(func() { atomic.AddInt32(&ran, 1) })
						if errors.Is(err, EClosed) {
							atomic.AddInt32(&refused, 1)
							return
						}
						if err == nil {
							atomic.AddInt32(&accepted, 1)
						} else if !errors.Is(err, syscall.EAGAIN) {
							t.Error(err)
							return
						}
						runtime.Gosched()
					}
				}()
			}
			w.do(func(done func()) { done() })
			w.Stop()
			if err := w.wait(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if accepted != ran {
				t.Fatalf("accepted %d, ran %d", accepted, ran)
			}
		}
		if refused == 0 {
			t.Error("no post met the end")
		}
	})
}

// Posts that nobody calls are bounded, and when they were called there is room again.
func TestPostsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		entered, release, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
		if err := w.Post(func() { close(entered); <-release }); err != nil {
			t.Fatal(err)
		}
		<-entered
		ran := 0
		for i := 0; i < postedMax; i++ {
			err := w.Post(func() {
				if ran++; ran == postedMax {
					close(all)
				}
			})
			if err != nil {
				t.Fatal(i, err)
			}
		}
		if err := w.Post(func() { ran++ }); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("a post beyond the bound: %v", err)
		}
		close(release)
		w.await(all)
		w.do(func(done func()) {
			if ran != postedMax {
				t.Errorf("%d of %d posts ran", ran, postedMax)
			}
			done()
		})
	})
}

// With every P busy the worker is still served, and when it has nothing to do it takes nothing.
func TestParking(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		if err := roundTrip(c, []byte("hello")); err != nil {
			t.Fatal(err)
		}

		var stop int32
		var turned int64
		var hogs sync.WaitGroup
		defer func() {
			atomic.StoreInt32(&stop, 1)
			hogs.Wait()
		}()
		for i := 0; i < 2*runtime.GOMAXPROCS(0); i++ {
			hogs.Add(1)
			go func() {
				defer hogs.Done()
				for x := uint32(1); atomic.LoadInt32(&stop) == 0; atomic.AddInt64(&turned, 1) {
					for i := 0; i < 1<<16; i++ { // plain work, so that the scheduler can take the thread away
						x ^= x<<13 ^ x>>17
					}
					runtime.KeepAlive(x)
				}
			}()
		}
		// Idle: the worker makes no turn while the hogs make many.
		ticks, begin := w.Stats().Ticks, atomic.LoadInt64(&turned)
		for atomic.LoadInt64(&turned)-begin < 1000 {
			runtime.Gosched()
		}
		if now := w.Stats().Ticks; now > ticks+2 {
			t.Errorf("%d turns of an idle worker", now-ticks)
		}
		// Busy: messages are answered beside the hogs, and the hogs go on. Go's own server shows what the scheduler costs.
		begin = atomic.LoadInt64(&turned)
		plain, ours := exchange(t, plainEcho(t), 10), exchange(t, c, 10)
		t.Logf("10 round trips beside %d busy goroutines: %v, with package net %v", 2*runtime.GOMAXPROCS(0), ours, plain)
		if atomic.LoadInt64(&turned) == begin {
			t.Error("the busy goroutines starved")
		}
	})
}

func exchange(t *testing.T, c net.Conn, n int) time.Duration {
	t.Helper()
	began := time.Now()
	c.SetDeadline(began.Add(patience))
	for i := 0; i < n; i++ {
		if err := roundTrip(c, []byte("beside busy goroutines")); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

// plainEcho is a connection to an echo server written with package net alone.
func plainEcho(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			io.Copy(c, struct{ io.Reader }{c})
			c.Close()
		}
	}()
	return dial(t, l.Addr().String())
}

func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &messageHooks{}
		receiver := run(t, rt, WorkerOptions{}, h)
		sender := run(t, rt, WorkerOptions{}, &hooks{})
		const n = 1000
		for i := 0; i < n; i++ {
			m := Message{Word1: uint64(i), Word2: -int64(i), Arg: uint32(i), UserData: uint64(i) * 3}
			sender.do(func(done func()) {
				if m.Arg%2 == 0 {
					sender.SendMessage(receiver.Handle(), m, nil)
					done()
					return
				}
				sender.SendMessage(receiver.Handle(), m, func(err error) {
					if err != nil {
						t.Error(err)
					}
					done()
				})
			})
		}
		receiver.eventually("all messages", func() bool { return len(h.got) == n })
		for i, m := range h.got {
			if m != (Message{uint64(i), -int64(i), uint32(i), uint64(i) * 3}) {
				t.Fatalf("message %d is %+v", i, m)
			}
		}
		if err := PostMessage(receiver.Handle(), Message{Arg: 7}); err != nil {
			t.Error(err)
		}
		receiver.eventually("the message of a goroutine", func() bool {
			return len(h.got) == n+1 && h.got[n].Arg == 7
		})
		receiver.Stop()
		if err := receiver.wait(); err != nil {
			t.Error(err)
		}
		if err := PostMessage(receiver.Handle(), Message{}); !errors.Is(err, ClassClosed) && !errors.Is(err, EStale) {
			t.Errorf("a message to a worker that ended: %v", err)
		}
	})
}

type messageHooks struct {
	hooks
	got []Message
}

func (h *messageHooks) OnMessage(m Message) { h.got = append(h.got, m) }
