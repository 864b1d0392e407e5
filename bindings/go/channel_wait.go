// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"context"
	"errors"
	"io"
	"syscall"
)

// The side of a channel that goroutines use. All of it is done by the receiving worker, so that goroutines count as that worker
// where a channel has one sender. None of this may be called on a worker: it waits.

// MakeChannel makes a channel whose receiver is w. Any goroutine but those of workers; w must be inside Run, or come there.
func MakeChannel[T any](ctx context.Context, w *Worker, o ChannelOptions) (c *Channel[T], err error) {
	failed := w.wait(ctx, func(done func(error)) func() {
		NewChannel(w, o, func(made *Channel[T], err error) {
			c = made
			done(err)
		})
		return func() {}
	})
	if failed != nil {
		return nil, failed
	}
	return c, nil
}

// Send sends a value and waits until the channel has room for it. When ctx ends first the value is not sent, and the error is
// that of ctx. EPIPE: the channel is closed, maybe by the end of its worker; EClosed: that had ended. Any goroutine but those of workers.
func (c *Channel[T]) Send(ctx context.Context, value T) error {
	return c.w.wait(ctx, func(done func(error)) func() { return c.SendFrom(c.w, value, done) })
}

// Recv takes the next value and waits for it. io.EOF: the channel is closed, and all of it received. When ctx ends first no value
// is lost: the next Recv has it. EClosed: the worker has ended. Any number of goroutines but those of workers.
func (c *Channel[T]) Recv(ctx context.Context) (value T, err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-c.turn }()
	for !c.ended {
		var r receipt[T]
		err := c.w.wait(ctx, func(done func(error)) func() {
			data := c.receive(0, func(told receipt[T]) {
				r = told
				done(r.err)
			})
			return func() {
				if c.w.calls.find(data) != nil {
					c.StopReceiving()
				}
			}
		})
		c.ended = c.ended || err == nil && r.ended
		if err != nil || r.got {
			return r.value, err
		}
	}
	return value, io.EOF
}

// End is Close for goroutines; it does not wait. EClosed: the worker has ended. Any goroutine.
func (c *Channel[T]) End() error { return c.w.Post(c.Close) }

// wait has start called on the worker, and waits until done is called there. When ctx ends first what start returned is called
// there, to call it off: then done's answer counts, but for ECANCELED, which becomes the error of ctx.
func (w *Worker) wait(ctx context.Context, start func(done func(error)) (cancel func())) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	over := make(chan error, 1)
	var cancel func()
	if err := w.Post(func() { cancel = start(func(err error) { over <- err }) }); err != nil {
		return err
	}
	select {
	case err := <-over:
		return stopped(err)
	case <-w.Done():
	case <-ctx.Done():
		w.post(func() { cancel() }, true) // posts keep their order: start has been called by then
		select {
		case err := <-over:
			if err != nil {
				return ctx.Err()
			}
			return nil
		case <-w.Done():
		}
	}
	select { // it may have been done in the worker's last tick
	case err := <-over:
		return stopped(err)
	default:
		return stopped(statusError("wait for the worker", -int64(syscall.ECANCELED)))
	}
}

// stopped is the error of what nobody called off: only the end of the worker does then.
func stopped(err error) error {
	if errors.Is(err, syscall.ECANCELED) {
		return statusError(err.(*Error).Op, int64(EClosed))
	}
	return err
}
