// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import "time"

// Timer calls a function on the worker. Resolution is 1 ms; none fires early.
type Timer struct {
	w        *Worker
	f        func()
	userData uint64
	handle   Handle // 0 until the worker has told it
	period   time.Duration
	active   bool
}

// After calls f once, d from this tick's time on.
func (w *Worker) After(d time.Duration, f func()) *Timer {
	t := &Timer{w: w, f: f}
	t.arm(d)
	return t
}

// Every calls f again and again, d apart. Calls that fell due together are made as one.
func (w *Worker) Every(d time.Duration, f func()) *Timer {
	t := &Timer{w: w, f: f, period: d}
	t.arm(d)
	return t
}

func (t *Timer) arm(d time.Duration) {
	o := t.w.op()
	o.Opcode, o.Flags, o.Offset, o.Arg2 = OpTimer, FlagArmed, int64(duration(d)), duration(t.period)
	t.active, t.handle = true, 0
	t.userData = t.w.calls.add("timer", func(e *Event) {
		t.active, t.handle = e.Flags&EventMore != 0, Handle(e.Value)
		if e.Result > 0 {
			t.f()
		}
	}, nil)
	o.UserData = t.userData
}

// Stop ends the timer; its function is not called any more. It tells whether the timer was still to fire.
func (t *Timer) Stop() bool {
	if !t.active {
		return false
	}
	t.active = false
	t.w.calls.forget(t.userData)
	o := t.w.op()
	o.Opcode, o.Target, o.Arg, o.UserData = OpCancel, t.handle, OpTimer, ownData(tagNone)
	if t.handle == 0 { // told in the next tick: until then the op is found by its user_data
		o.Arg2 = t.userData
	}
	return true
}

// Reset makes the timer fire d from now, whether or not it had fired; Every goes on with its period after that.
func (t *Timer) Reset(d time.Duration) {
	t.Stop()
	t.arm(d)
}

// Poll waits once for a foreign fd (a duplicate is watched; the fd stays the program's). mask is PollIn and so on;
// done gets what is ready. timeout 0 waits for ever.
func (w *Worker) Poll(fd int, mask uint32, timeout time.Duration, done func(ready uint32, err error)) {
	o := w.op()
	o.Opcode, o.Arg, o.Offset, o.TimeoutNs = OpPoll, mask, int64(fd), duration(timeout)
	o.UserData = w.calls.add("poll", func(e *Event) {
		if err := eventError("poll", e); err != nil {
			done(0, err)
			return
		}
		done(uint32(e.Result), nil)
	}, nil)
}
