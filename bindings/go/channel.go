// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"sync"
	"syscall"
)

// ChannelOptions are those of a channel; zero means the default.
type ChannelOptions struct {
	// Kind is ChannelManyToOne (any worker sends), ChannelOneToOne (one worker does: the first) or ChannelOneshot (one value,
	// which closes the channel).
	Kind uint32
	// Capacity is how many values it holds before a send waits, up to ChannelMax. Default 64, of a oneshot 1.
	Capacity int
}

// Channel carries values from any worker of the process to the one that made it: bounded, so that a slow receiver slows its
// senders. A value that was sent is received once, or dropped and counted by Abort or the end of the receiving worker;
// one whose send fails or was called off never is. Values of one sender arrive in its order.
//
// Handlers use SendFrom and Receive, which never block; goroutines use Send and Recv, which wait. Values stay in Go memory.
type Channel[T any] struct {
	w       *Worker
	handle  Handle
	parcels parcels[T]

	turn  chan struct{} // held by the goroutine that is in Recv
	ended bool          // by who holds turn: the last value was received
}

// NewChannel makes a channel whose receiver is w. Call it on w; done is told there. MakeChannel is the same for goroutines.
func NewChannel[T any](w *Worker, o ChannelOptions, done func(c *Channel[T], err error)) {
	if o.Capacity == 0 {
		if o.Capacity = 64; o.Kind == ChannelOneshot {
			o.Capacity = 1
		}
	}
	if o.Capacity < 0 || o.Capacity > int(ChannelMax) {
		done(nil, &Error{Status: EField, Op: "make a channel", Field: FieldLen})
		return
	}
	op := w.op()
	op.Opcode, op.Arg, op.Len = OpChannel, o.Kind, uint32(o.Capacity)
	op.UserData = w.calls.add("make a channel", func(e *Event) {
		if err := eventError("make a channel", e); err != nil {
			done(nil, err)
			return
		}
		done(&Channel[T]{w: w, handle: Handle(e.Value), turn: make(chan struct{}, 1)}, nil)
	}, nil)
}

// Handle is the channel's. Any goroutine.
func (c *Channel[T]) Handle() Handle { return c.handle }

// Worker is the one that receives. Any goroutine.
func (c *Channel[T]) Worker() *Worker { return c.w }

// SendFrom sends a value; call it on from, any worker of the process. done, which may be nil, is told there once the value is
// in the channel, which takes until there is room, or why it is not: EPIPE when the channel is closed, EBusy when another
// worker is the sender. What is returned calls the send off, on from too: done is told ECANCELED, unless it was sent.
func (c *Channel[T]) SendFrom(from *Worker, value T, done func(err error)) (cancel func()) {
	slot, cookie := c.parcels.put(value)
	op := from.op()
	op.Opcode, op.Target, op.Addr, op.Offset = OpChannelSend, c.handle, slot, cookie
	userData := from.calls.add("send to a channel", func(e *Event) {
		err := channelError("send to a channel", e)
		if err != nil {
			c.parcels.take(slot, cookie)
		}
		if done != nil {
			done(err)
		}
	}, nil)
	op.UserData = userData
	return func() {
		if from.calls.find(userData) != nil {
			op := from.op()
			op.Opcode, op.Flags, op.Arg, op.Arg2 = OpCancel, FlagQuiet, OpChannelSend, userData
			op.UserData = ownData(tagNone)
		}
	}
}

// channelError is the error of an event; a channel that is gone is one that is closed.
func channelError(name string, e *Event) error {
	if Status(e.Result) == EStale {
		return statusError(name, -int64(syscall.EPIPE))
	}
	return eventError(name, e)
}

// Receive has each value given to f, on the receiving worker, where it is to be called; until the channel has ended, which end
// is told: nil after the last value, ECANCELED after StopReceiving. EBusy: somebody receives already.
func (c *Channel[T]) Receive(f func(value T), end func(err error)) {
	c.receive(FlagMulti, func(r receipt[T]) {
		if r.got {
			f(r.value)
		}
		if r.last {
			end(r.err)
		}
	})
}

// StopReceiving ends Receive; what was not told stays in the channel. On the receiving worker.
func (c *Channel[T]) StopReceiving() {
	op := c.w.op()
	op.Opcode, op.Flags, op.Target, op.Arg = OpCancel, FlagQuiet, c.handle, OpChannelRecv
	op.UserData = ownData(tagNone)
}

// receipt is what one event of a receive tells.
type receipt[T any] struct {
	value T
	got   bool  // there is a value
	last  bool  // of the receive
	ended bool  // the channel has nothing more
	err   error // why receiving ended
}

// receive arms one receive, whose events are told. It returns what finds the op again.
func (c *Channel[T]) receive(flags uint32, told func(r receipt[T])) uint64 {
	op := c.w.op()
	op.Opcode, op.Flags, op.Target = OpChannelRecv, flags, c.handle
	op.UserData = c.w.calls.add("receive from a channel", func(e *Event) {
		r := receipt[T]{last: e.Flags&EventMore == 0, ended: e.Flags&EventEOF != 0}
		switch {
		case e.Flags&EventMessage != 0: // whose words, if no Channel sent them, are none of ours
			r.value, r.got = c.parcels.take(e.Value, e.Result)
		case Status(e.Result) == EStale:
			r.ended = true
		default:
			r.err = eventError("receive from a channel", e)
		}
		told(r)
	}, nil)
	return op.UserData
}

// Close takes no more values: sends that wait end with EPIPE. What is inside can still be received, then comes the end. On the
// receiving worker; End is the same for goroutines.
func (c *Channel[T]) Close() { c.close(0, nil) }

// Abort drops what is inside too. done, which may be nil, is told how many values that were. On the receiving worker.
func (c *Channel[T]) Abort(done func(dropped int)) { c.close(FlagAbort, done) }

func (c *Channel[T]) close(flags uint32, done func(dropped int)) {
	op := c.w.op()
	op.Opcode, op.Flags, op.Target = OpClose, flags, c.handle
	op.UserData = c.w.calls.add("close a channel", func(e *Event) {
		if done != nil {
			done(int(e.Value))
		}
		if e.Result >= 0 {
			c.parcels.clear()
		}
	}, nil)
}

// parcels hold the values that are on their way: the words of a message say where. Any goroutine.
type parcels[T any] struct {
	mu    sync.Mutex
	slots []parcel[T]
	free  []uint32
}

type parcel[T any] struct {
	value  T
	cookie int64 // of the value that is or was here
	held   bool
}

func (p *parcels[T]) put(value T) (slot uint64, cookie int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		p.free = append(p.free, uint32(len(p.slots)))
		p.slots = append(p.slots, parcel[T]{})
	}
	index := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	at := &p.slots[index]
	at.value, at.held = value, true
	at.cookie++
	return uint64(index), at.cookie
}

func (p *parcels[T]) take(slot uint64, cookie int64) (value T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slot >= uint64(len(p.slots)) || !p.slots[slot].held || p.slots[slot].cookie != cookie {
		return value, false
	}
	at := &p.slots[slot]
	value = at.value
	*at = parcel[T]{cookie: at.cookie}
	p.free = append(p.free, uint32(slot))
	return value, true
}

// clear drops what a channel that is gone has left.
func (p *parcels[T]) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots, p.free = nil, nil
}
