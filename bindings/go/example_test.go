// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"quoit"
)

// start runs a worker; what it returns ends it.
func start() (w *quoit.Worker, stop func()) {
	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if w, err = rt.NewWorker(quoit.WorkerOptions{}); err != nil {
		log.Fatal(err)
	}
	go w.Run(context.Background(), quoit.BaseHandler{})
	return w, func() {
		w.Stop()
		<-w.Done()
		rt.Close()
	}
}

// A goroutine sends to a channel of a worker; when it is full, Send waits. Another one receives until the end.
func ExampleChannel() {
	w, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := quoit.MakeChannel[string](ctx, w, quoit.ChannelOptions{Capacity: 1})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for _, word := range []string{"values", "stay", "in", "order"} {
			if err := c.Send(ctx, word); err != nil {
				log.Fatal(err)
			}
		}
		c.End()
	}()
	for {
		word, err := c.Recv(ctx)
		if err == io.EOF {
			break
		}
		fmt.Println(word)
	}
	// Output:
	// values
	// stay
	// in
	// order
}

// A handler is given each value on its worker, without a goroutine that waits.
func ExampleChannel_Receive() {
	w, stop := start()
	defer stop()
	over := make(chan struct{})
	w.Post(func() {
		quoit.NewChannel(w, quoit.ChannelOptions{}, func(c *quoit.Channel[int], err error) {
			if err != nil {
				log.Fatal(err)
			}
			sum := 0
			c.Receive(func(value int) { sum += value }, func(err error) {
				fmt.Println(sum, err)
				close(over)
			})
			for i := 1; i <= 4; i++ {
				c.SendFrom(w, i, nil) // or from any other worker
			}
			c.Close()
		})
	})
	<-over
	// Output: 10 <nil>
}
