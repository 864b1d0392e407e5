// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"quoit"
)

func TestOptions(t *testing.T) {
	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for name, o := range map[string]Options{
		"Workers":     {Workers: -1},
		"ReadBuffer":  {ReadBuffer: -5},
		"WriteBuffer": {WriteBuffer: 1<<20 + 1, Worker: quoit.WorkerOptions{SendLimit: 1 << 20}},
		"AcceptQueue": {AcceptQueue: 1 << 21},
	} {
		if n, err := New(rt, o); n != nil || err == nil || !strings.Contains(err.Error(), "Options."+name+" is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A small SendLimit lowers what is taken where nothing was asked for.
	n, err := New(rt, Options{Worker: quoit.WorkerOptions{SendLimit: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	if n.limits.write != 64<<10 {
		t.Errorf("limits %+v", n.limits)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(rt, Options{Worker: quoit.WorkerOptions{RecvBuffers: 3}}); err == nil {
		t.Error("options that the worker refuses were taken")
	}
}

// Close ends everything that waits, and everything asked for later, with net.ErrClosed.
func TestNetClose(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{Workers: 2})
		outside, err := net.Listen("tcp", "127.0.0.1:0") // the end of a peer of the same Net could come first
		if err != nil {
			t.Fatal(err)
		}
		defer outside.Close()
		ln := listen(t, n)
		dialled, err := n.DialTimeout("tcp", outside.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		client := dialled.(*Conn)
		ends := make(chan error, 2)
		go func() { _, err := client.Read(make([]byte, 1)); ends <- err }()
		go func() { _, err := ln.Accept(); ends <- err }()
		eventually(t, "a reader that waits", func() bool { return client.waitingToRead() == 1 })
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		within(t, "those who waited", func() {
			for i := 0; i < 2; i++ {
				if err := <-ends; !errors.Is(err, net.ErrClosed) {
					t.Errorf("one who waited got %v", err)
				}
			}
		})
		_, late := n.Dial("tcp", ln.Addr().String())
		_, listened := n.Listen("tcp", "127.0.0.1:0")
		_, wrote := client.Write([]byte("x"))
		for what, err := range map[string]error{"Dial": late, "Listen": listened, "Write": wrote, "Close": ln.Close()} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Errorf("closing what has ended: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
	})
}

// Shutdown lets what was written arrive.
func TestShutdown(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{WriteBuffer: 1 << 20})
		ln := listen(t, n)
		sent := pattern(1<<20, 5)
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(peer)
			peer.Close()
			got <- all
		}()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if all := <-got; !bytes.Equal(all, sent) {
			t.Errorf("%d of %d bytes arrived", len(all), len(sent))
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Shutdown: %v", err)
		}
	})
}

// A peer that never closes holds Shutdown up only until its ctx ends.
func TestShutdownLate(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{Workers: 2, Worker: quoit.WorkerOptions{CloseTimeoutNs: uint64(time.Hour)}})
		ln := listen(t, n)
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		within(t, "the end of Shutdown", func() {
			if err := n.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown gave %v", err)
			}
		})
	})
}

// A panic on the worker ends it: everyone is told, and Close says why.
func TestWorkerPanics(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n, err := New(rt, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ln, client, _, err := n.pair("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan error, 2)
		go func() { _, err := client.Read(make([]byte, 1)); ends <- err }()
		go func() { _, err := ln.Accept(); ends <- err }()
		n.Workers()[0].Post(func() { panic("boom") })
		within(t, "those who waited", func() {
			for i := 0; i < 2; i++ {
				if err := <-ends; !errors.Is(err, net.ErrClosed) {
					t.Errorf("one who waited got %v", err)
				}
			}
		})
		if _, err := n.Dial("tcp", ln.Addr().String()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial afterwards: %v", err)
		}
		var p *quoit.PanicError
		if err := n.Close(); !errors.As(err, &p) || p.Value != "boom" {
			t.Errorf("Close gave %v", err)
		}
	})
}

// While the worker is busy goroutines wait for nothing: all they wrote is one wake-up and, per connection, one send.
func TestOneBatch(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		const conns, writes, size = 10, 20, 100
		var clients, servers [conns]*Conn
		for i := range clients {
			clients[i], servers[i] = connect(t, n, "tcp", "127.0.0.1:0")
		}
		w := n.Workers()[0]
		stopped, goOn := make(chan struct{}), make(chan struct{})
		if err := w.Post(func() { close(stopped); <-goOn }); err != nil {
			t.Fatal(err)
		}
		<-stopped
		before := w.Stats()
		for i := 0; i < writes; i++ {
			for _, c := range clients {
				if _, err := c.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(goOn)
		for _, c := range servers {
			c.SetDeadline(time.Now().Add(patience))
			if _, err := io.ReadFull(c, make([]byte, writes*size)); err != nil {
				t.Fatal(err)
			}
		}
		after := w.Stats()
		// One wake-up, and maybe the one that made the worker stop.
		if posts := after.PostsIn - before.PostsIn; posts > 2 {
			t.Errorf("%d posts for %d writes", posts, conns*writes)
		}
		if sends := after.Sends - before.Sends; sends != conns {
			t.Errorf("%d sends for %d connections", sends, conns)
		}
	})
}
