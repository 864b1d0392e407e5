// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !race

package qnet

import (
	"io"
	"runtime"
	"testing"
	"time"

	"quoit"
)

// Reading and writing allocate nothing per message. (The race detector's pools forget on purpose.)
func TestNoAllocations(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		client, server := connect(t, n, "tcp", "127.0.0.1:0")
		go io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{server})
		client.SetDeadline(time.Now().Add(patience))
		message := make([]byte, 64)
		exchange := func(times int) {
			for i := 0; i < times; i++ {
				if _, err := client.Write(message); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(client, message); err != nil {
					t.Fatal(err)
				}
			}
		}
		exchange(100)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		exchange(1000)
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > 200 {
			t.Errorf("%d allocations for 1000 exchanges", n)
		}
	})
}
