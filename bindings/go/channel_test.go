// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"

	"quoit/internal/testkit"
)

func makeChannel[T any](t *testing.T, w *running, o ChannelOptions) *Channel[T] {
	t.Helper()
	c, err := MakeChannel[T](context.Background(), w.Worker, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Handlers of two workers: a full channel makes sends wait, one is called off, the rest arrives in order, then the end.
func TestChannel(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		from, to := run(t, rt, WorkerOptions{}, &hooks{}), run(t, rt, WorkerOptions{}, &hooks{})
		c := makeChannel[string](t, to, ChannelOptions{Capacity: 2})
		ends := make([]error, 5)
		told := 0
		var cancels []func()
		from.do(func(done func()) {
			for i := range ends {
				i := i
				cancels = append(cancels, c.SendFrom(from.Worker, fmt.Sprint(i), func(err error) { ends[i] = err; told++ }))
			}
			done()
		})
		from.eventually("room for two", func() bool { return told == 2 })
		from.do(func(done func()) { cancels[3](); cancels[0](); done() })
		from.eventually("the end of one that was called off", func() bool { return told == 3 })
		// What no Channel sent is not told, and harms nothing.
		if _, err := PostOps(from.Handle(), []Op{{Opcode: OpChannelSend, Flags: FlagQuiet, Target: c.Handle(), Addr: 7, Offset: 7}}); err != nil {
			t.Fatal(err)
		}
		var got []string
		var end error
		over := make(chan struct{})
		to.do(func(done func()) {
			c.Receive(func(value string) { got = append(got, value) }, func(err error) { end = err; close(over) })
			done()
		})
		from.eventually("all sends", func() bool { return told == 5 })
		to.eventually("all values", func() bool { return len(got) == 4 })
		to.do(func(done func()) { c.Close(); done() })
		to.await(over)
		if want := []string{"0", "1", "2", "4"}; !reflect.DeepEqual(got, want) || end != nil {
			t.Errorf("got %v, %v", got, end)
		}
		for i, err := range ends {
			if i == 3 && !errors.Is(err, syscall.ECANCELED) || i != 3 && err != nil {
				t.Errorf("send %d: %v", i, err)
			}
		}
		from.do(func(done func()) {
			c.SendFrom(from.Worker, "late", func(err error) {
				if !errors.Is(err, syscall.EPIPE) {
					t.Errorf("a send to a closed channel: %v", err)
				}
				done()
			})
		})
	})
}

// The kinds: one sender only; one value only. Abort tells what it drops.
func TestChannelKinds(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		ctx := context.Background()
		w, other := run(t, rt, WorkerOptions{}, &hooks{}), run(t, rt, WorkerOptions{}, &hooks{})
		single := makeChannel[int](t, w, ChannelOptions{Kind: ChannelOneToOne})
		if err := single.Send(ctx, 1); err != nil {
			t.Fatal(err)
		}
		other.do(func(done func()) {
			single.SendFrom(other.Worker, 2, func(err error) {
				if !errors.Is(err, EBusy) {
					t.Errorf("a second sender: %v", err)
				}
				done()
			})
		})
		single.Send(ctx, 3)
		w.do(func(done func()) {
			single.Abort(func(dropped int) {
				if dropped != 2 {
					t.Errorf("%d values were dropped", dropped)
				}
				done()
			})
		})
		shot := makeChannel[error](t, w, ChannelOptions{Kind: ChannelOneshot})
		if err := shot.Send(ctx, io.ErrUnexpectedEOF); err != nil {
			t.Fatal(err)
		}
		if err := shot.Send(ctx, nil); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a second value of a oneshot: %v", err)
		}
		if value, err := shot.Recv(ctx); value != io.ErrUnexpectedEOF || err != nil {
			t.Errorf("received %v, %v", value, err)
		}
		for i := 0; i < 2; i++ {
			if _, err := shot.Recv(ctx); err != io.EOF {
				t.Errorf("after the one value: %v", err)
			}
		}
		for _, bad := range []ChannelOptions{{Kind: 9}, {Capacity: -1}, {Capacity: 1 << 30}, {Kind: ChannelOneshot, Capacity: 2}} {
			if _, err := MakeChannel[int](ctx, w.Worker, bad); !errors.Is(err, EField) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// Goroutines send and receive while contexts end all the time: what was sent is received once, what was not never is.
func TestChannelLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		c := makeChannel[int](t, w, ChannelOptions{Capacity: 3})
		const senders, receivers, count = 4, 3, 100
		var mu sync.Mutex
		sent, received := map[int]bool{}, map[int]int{}
		calledOff := [2]int{}
		short := func(k int) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Duration(k%7)*40*time.Microsecond)
		}
		var group, readers sync.WaitGroup
		for s := 0; s < senders; s++ {
			group.Add(1)
			go func(s int) {
				defer group.Done()
				for i := 0; i < count; i++ {
					ctx, cancel := short(i + 6)
					err := c.Send(ctx, s*count+i)
					cancel()
					mu.Lock()
					if sent[s*count+i] = err == nil; err != nil {
						calledOff[0]++
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("a send: %v", err)
						}
					}
					mu.Unlock()
				}
			}(s)
		}
		for r := 0; r < receivers; r++ {
			readers.Add(1)
			go func() {
				defer readers.Done()
				for i := 0; ; i++ {
					ctx, cancel := short(i)
					value, err := c.Recv(ctx)
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						received[value]++
					case errors.Is(err, context.DeadlineExceeded):
						calledOff[1]++
					}
					mu.Unlock()
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						if err != io.EOF {
							t.Errorf("a receive: %v", err)
						}
						return
					}
				}
			}()
		}
		testkit.Within(t, "the senders", group.Wait)
		if err := c.End(); err != nil {
			t.Error(err)
		}
		testkit.Within(t, "the end", readers.Wait)
		for value, is := range sent {
			if times := received[value]; is && times != 1 || !is && times != 0 {
				t.Errorf("value %d, sent %v, was received %d times", value, is, times)
			}
		}
		if calledOff[0] == 0 || calledOff[1] == 0 || len(received) == 0 {
			t.Errorf("called off %v, received %d", calledOff, len(received))
		}
	})
}

// The end of the worker ends who waits, and a handler's receive is told its end.
func TestChannelWorkerEnds(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		full, empty := makeChannel[int](t, w, ChannelOptions{Capacity: 1}), makeChannel[int](t, w, ChannelOptions{})
		if err := full.Send(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		ends := make(chan error, 2)
		go func() { ends <- full.Send(context.Background(), 2) }()
		go func() { _, err := empty.Recv(context.Background()); ends <- err }()
		testkit.Eventually(t, "both wait", func() bool { return w.Stats().OpsLive >= 2 })
		w.Stop()
		testkit.Within(t, "those who waited", func() {
			for i := 0; i < 2; i++ {
				if err := <-ends; !errors.Is(err, EClosed) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("one who waited got %v", err)
				}
			}
		})
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		if err := full.Send(context.Background(), 3); !errors.Is(err, EClosed) {
			t.Errorf("a send afterwards: %v", err)
		}
	})
}
