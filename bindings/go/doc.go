// SPDX-License-Identifier: MIT OR Apache-2.0

// Package quoit drives the quoit runtime (io_uring or epoll, behind one stable C ABI) from Go.
//
// A Worker runs on one goroutine locked to its thread: Worker.Run. Each tick crosses into C once, with all that the
// program asked for since the last tick, and comes back with all that happened. Handlers run inline on that
// goroutine. When nothing happens the worker parks in Go's own netpoller; it never blocks inside C.
//
//	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{})
//	w, err := rt.NewWorker(quoit.WorkerOptions{})
//	err = w.Run(ctx, &server{})  // calls OnBoot, where the server calls w.Listen
//
// Rules that hold for the whole package:
//
//   - Handlers, callbacks and functions given to Worker.Post run on the worker. All methods of Worker, Conn, File,
//     Listener, DatagramSocket and Timer belong there too, but for those marked "any goroutine". A handler must not block.
//   - Bytes given to a handler or a callback (OnData, File.Read) are lent: they are valid until it returns. Send them
//     on with SendLent (nothing is copied), keep them with Worker.Keep, or copy them.
//   - C keeps no Go memory. What Write and its like are given is copied before they return.
//   - A panic in a handler does not pass through C: the worker stops, and Run returns a *PanicError.
//
// Two layers share one worker. The handler layer is what this text describes. Below it Batch gives the arrays of
// operations and events themselves, one for one with the C headers: a Handler that is also a BatchHandler sees each
// tick's batch first.
package quoit
