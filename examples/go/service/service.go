// SPDX-License-Identifier: MIT OR Apache-2.0

// Package service is what the example services share: the command line, running until SIGTERM, the final line.
package service

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quoit"
)

// Counters are counted by the service's own handler.
type Counters struct {
	Messages uint64
	Bytes    uint64
}

// Options are what the command line says.
type Options struct {
	Address string
	Rest    []string // positional arguments after the address

	driver          string
	buffers, events uint
}

// Parse reads "HOST:PORT [more...] [--driver D] [--buffers N] [--events N]" and leaves the program if it cannot.
func Parse(usage string, more int) Options {
	var o Options
	flags := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flags.StringVar(&o.driver, "driver", "", "auto, uring, uring-defer, uring-coop, uring-plain or epoll")
	flags.UintVar(&o.buffers, "buffers", 0, "receive buffers (a power of two; 0: the default)")
	flags.UintVar(&o.events, "events", 0, "most events per batch (0: the default)")
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage:", usage)
		flags.PrintDefaults()
	}
	if len(os.Args) < 2+more {
		flags.Usage()
		os.Exit(2)
	}
	o.Address, o.Rest = os.Args[1], os.Args[2:2+more]
	flags.Parse(os.Args[2+more:]) // leaves the program on an error
	if flags.NArg() > 0 {
		flags.Usage()
		os.Exit(2)
	}
	return o
}

// Run drives one worker with h until SIGTERM or SIGINT, then prints one line of JSON with what happened.
func Run(o Options, h quoit.Handler, counters *Counters) {
	if err := run(o, h, counters); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o Options, h quoit.Handler, counters *Counters) error {
	rt, options, err := o.Open()
	if err != nil {
		return err
	}
	defer rt.Close()
	w, err := rt.NewWorker(options)
	if err != nil {
		return err
	}
	ctx, cancel := Until()
	defer cancel()
	if err := w.Run(ctx, h); err != nil {
		return err
	}
	return Report(rt, w, counters)
}

// Open makes the runtime that the command line asks for, and the options of its worker.
func (o Options) Open() (*quoit.Runtime, quoit.WorkerOptions, error) {
	options := quoit.WorkerOptions{RecvBuffers: uint32(o.buffers), EventsMax: uint32(o.events)}
	driver, err := quoit.ParseDriver(o.driver)
	if err != nil {
		return nil, options, err
	}
	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{Driver: driver})
	return rt, options, err
}

// Until ends with SIGTERM or SIGINT.
func Until() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

// Report prints the final line.
func Report(rt *quoit.Runtime, w *quoit.Worker, counters *Counters) error {
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"language":         "go",
		"driver":           rt.Driver().String(),
		"handler_messages": counters.Messages,
		"handler_bytes":    counters.Bytes,
		"stats":            w.Stats(),
	})
}

// Listen gives the connections of an address to h, and says where it listens. A failure stops the worker.
func Listen(w *quoit.Worker, address string, h quoit.ConnHandler) {
	w.Listen(address, quoit.ListenOptions{}, h, func(l *quoit.Listener, err error) {
		if err != nil {
			w.Fail(err)
			return
		}
		fmt.Println("listening on", l.Addr())
	})
}
