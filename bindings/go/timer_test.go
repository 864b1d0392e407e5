// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestTimers(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		var order []int
		early := false
		w.do(func(done func()) {
			begin := time.Now()
			for _, ms := range []int{30, 10, 20} {
				ms := ms
				w.After(time.Duration(ms)*time.Millisecond, func() {
					// The timer counts from the tick's time, a little before begin.
					early = early || time.Since(begin) < time.Duration(ms-5)*time.Millisecond
					if order = append(order, ms); len(order) == 3 {
						done()
					}
				})
			}
		})
		if early || order[0] != 10 || order[1] != 20 || order[2] != 30 {
			t.Errorf("fired in the order %v, early: %v", order, early)
		}

		fired := 0
		var stopped *Timer
		w.do(func(done func()) {
			var every *Timer
			stopped = w.After(5*time.Millisecond, func() { t.Error("a stopped timer fired") })
			if !stopped.Stop() || stopped.Stop() {
				t.Error("Stop told the wrong state")
			}
			every = w.Every(2*time.Millisecond, func() {
				if fired++; fired == 5 {
					if !every.Stop() {
						t.Error("a periodic timer that ran was not active")
					}
					w.After(20*time.Millisecond, done)
				}
			})
		})
		if fired != 5 {
			t.Errorf("a periodic timer fired %d times", fired)
		}

		w.do(func(done func()) {
			begin := time.Now()
			late := w.After(time.Hour, func() {
				if time.Since(begin) > patience/2 {
					t.Error("Reset did not bring the timer forward")
				}
				done()
			})
			late.Reset(time.Millisecond)
		})
	})
}

func TestManyTimers(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		const n = 10000
		fired := 0
		w.do(func(done func()) {
			for i := 0; i < n; i++ {
				timer := w.After(time.Duration(i%50)*time.Millisecond, func() {
					if fired++; fired == n/2 {
						done()
					}
				})
				if i%2 == 0 {
					timer.Stop()
				}
			}
		})
		w.eventually("no timer left", func() bool { return w.Stats().OpsLive <= 2 })
		if fired != n/2 {
			t.Errorf("%d of %d timers fired", fired, n/2)
		}
	})
}

func TestPoll(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer wr.Close()
		fd := int(r.Fd())
		w.do(func(done func()) {
			w.Poll(fd, PollIn, 5*time.Millisecond, func(_ uint32, err error) {
				var e *Error
				if !errors.Is(err, syscall.ETIMEDOUT) || !errors.As(err, &e) || !e.Timeout() {
					t.Errorf("polling an empty pipe: %v", err)
				}
				w.Poll(fd, PollIn, 0, func(ready uint32, err error) {
					if ready&PollIn == 0 || err != nil {
						t.Errorf("polling a full pipe: %x, %v", ready, err)
					}
					done()
				})
				wr.Write([]byte("x"))
			})
		})
		w.do(func(done func()) {
			w.Poll(-1, PollIn, 0, func(_ uint32, err error) {
				if err == nil {
					t.Error("fd -1 is ready")
				}
				done()
			})
		})
	})
}
