// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"quoit"
	"quoit/internal/testkit"
)

// Addresses are those of package net, seen from both ends.
func TestAddresses(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		tries := []struct{ network, address string }{
			{"tcp", "127.0.0.1:0"}, {"tcp", "localhost:0"}, {"tcp", ":0"}, {"tcp4", ":0"}, {"tcp6", "[::1]:0"},
			{"tcp6", ":0"}, {"unix", t.TempDir() + "/s"}, {"unix", abstract(t)},
		}
		for _, try := range tries {
			ln, client, server, err := n.pair(try.network, try.address)
			if err != nil {
				t.Errorf("%v: %v", try, err)
				continue
			}
			if client.RemoteAddr().Network() != try.network[:len(ln.Addr().Network())] {
				t.Errorf("%v: network %s", try, client.RemoteAddr().Network())
			}
			switch local := client.LocalAddr().(type) {
			case *net.TCPAddr:
				peer := server.RemoteAddr().(*net.TCPAddr)
				at, to := ln.Addr().(*net.TCPAddr), client.RemoteAddr().(*net.TCPAddr)
				if !local.IP.Equal(peer.IP) || local.Port != peer.Port || at.Port != to.Port || at.Port == 0 {
					t.Errorf("%v: %v seen as %v, dialled %v at %v", try, local, peer, to, at)
				}
			case *net.UnixAddr:
				if ln.Addr().String() != try.address || client.RemoteAddr().String() != try.address {
					t.Errorf("%v: at %v, dialled %v", try, ln.Addr(), client.RemoteAddr())
				}
			default:
				t.Errorf("%v: %T", try, local)
			}
			client.Close()
			server.Close()
			ln.Close()
			if try.network == "unix" {
				if _, err := os.Stat(try.address); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%v is left behind: %v", try, err)
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		taken := listen(t, n)
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		var unknown net.UnknownNetworkError
		var address *net.AddrError
		check := func(what string, err error, op string, is error, as any) {
			t.Helper()
			var wrapped *net.OpError
			if !errors.As(err, &wrapped) || wrapped.Op != op {
				t.Errorf("%s: %v is no OpError of %s", what, err, op)
			}
			if is != nil && !errors.Is(err, is) || as != nil && !errors.As(err, as) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = n.Listen("tcp", taken.Addr().String())
		check("an address in use", err, "listen", syscall.EADDRINUSE, nil)
		_, err = n.Listen("unix", "/nowhere/at/all")
		check("no folder", err, "listen", syscall.ENOENT, nil)
		for _, bad := range []string{"", "udp", "tcp5", "unixgram"} {
			_, err = n.Listen(bad, "127.0.0.1:0")
			check("listening on "+bad, err, "listen", nil, &unknown)
		}
		for _, bad := range []string{"", "udp5", "tcp5", "ip"} {
			_, err = n.Dial(bad, "127.0.0.1:1")
			check("dialling "+bad, err, "dial", nil, &unknown)
		}
		_, err = n.Dial("tcp", gone.Addr().String())
		check("nobody listens", err, "dial", syscall.ECONNREFUSED, nil)
		_, err = n.Dial("tcp", "127.0.0.1")
		check("no port", err, "dial", nil, &address)
		_, err = n.Dial("tcp6", "127.0.0.1:1")
		check("the wrong family", err, "dial", nil, &address)
		_, err = n.Dial("unix", "/nowhere/at/all")
		check("no socket", err, "dial", syscall.ENOENT, nil)
	})
}

// The queue of a listener is bounded: who connects beyond it waits in the kernel's backlog, and is served in the end.
func TestAcceptQueue(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{AcceptQueue: 4})
		ln := listen(t, n)
		// Connect until a few in a row are not accepted although the worker has had its ticks.
		tick := func() {
			over := make(chan struct{})
			if err := n.Workers()[0].Post(func() { close(over) }); err != nil {
				t.Fatal(err)
			}
			<-over
		}
		length := func() int {
			tick()
			tick()
			ln.mu.Lock()
			defer ln.mu.Unlock()
			return len(ln.queue)
		}
		clients, still, last := 0, 0, -1
		for still < 3 {
			if clients == 100 {
				t.Fatalf("%d connections wait", last)
			}
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte{byte(clients)}); err != nil {
				t.Fatal(err)
			}
			clients++
			if queued := length(); queued == last && queued >= 4 {
				still++
			} else {
				still, last = 0, queued
			}
		}
		seen := map[byte]bool{}
		for i := 0; i < clients; i++ {
			ln.SetDeadline(time.Now().Add(patience))
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			one := make([]byte, 1)
			if _, err := io.ReadFull(c, one); err != nil {
				t.Fatal(err)
			}
			seen[one[0]] = true
			c.Close()
		}
		if len(seen) != clients {
			t.Errorf("%d of %d clients were served", len(seen), clients)
		}
	})
}

func TestAcceptEnds(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ln := listen(t, n)
		ends := make(chan error, 1)
		accept := func() { _, err := ln.Accept(); ends <- err }
		ln.SetDeadline(time.Now().Add(20 * time.Millisecond))
		go accept()
		within(t, "the deadline", func() {
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Accept ended with %v", err)
			}
		})
		ln.SetDeadline(time.Time{})
		go accept()
		// One that is not accepted is ended by Close.
		peer, err := n.DialTimeout("tcp", ln.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
		unheard, err := n.DialTimeout("tcp", ln.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a connection that waits", func() bool {
			ln.mu.Lock()
			defer ln.mu.Unlock()
			return len(ln.queue) == 1
		})
		ln.Close()
		unheard.SetDeadline(time.Now().Add(patience))
		if k, err := unheard.Read(make([]byte, 1)); k != 0 || err != io.EOF {
			t.Errorf("one that was not accepted: %d, %v", k, err)
		}
		go accept()
		within(t, "the end", func() {
			if err := <-ends; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept ended with %v", err)
			}
		})
		if _, err := peer.Write([]byte("lives on")); err != nil {
			t.Error(err)
		}
		if err := ln.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("SetDeadline of a closed listener: %v", err)
		}
	})
}

// With many workers a TCP port is shared, dials go round, and every connection works.
func TestManyWorkers(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{Workers: 3})
		ln := listen(t, n)
		go echo(ln)
		var group sync.WaitGroup
		for i := 0; i < 30; i++ {
			group.Add(1)
			go func(i int) {
				defer group.Done()
				c, err := n.DialTimeout("tcp", ln.Addr().String(), patience)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				sent := pattern(10000, int64(i))
				go c.Write(sent)
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != string(sent) {
					t.Errorf("connection %d: %v", i, err)
				}
			}(i)
		}
		group.Wait()
		var accepts uint64
		for _, w := range n.Workers() {
			stats := w.Stats()
			accepts += stats.Accepts
			if stats.Connects != 10 {
				t.Errorf("a worker dialled %d of 30", stats.Connects)
			}
		}
		if accepts != 30 {
			t.Errorf("%d accepts", accepts)
		}
	})
}

func TestDialEnds(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		full := testkit.FullListener(t)
		_, err := n.DialTimeout("tcp", full, 20*time.Millisecond)
		var timeout net.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("DialTimeout gave %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ends := make(chan error, 1)
		go func() { _, err := n.DialContext(ctx, "tcp", full); ends <- err }()
		w := n.Workers()[0]
		eventually(t, "a dial under way", func() bool { return w.Stats().OpsLive > 0 })
		cancel()
		within(t, "the dial", func() {
			if err := <-ends; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled dial gave %v", err)
			}
		})
		if _, err := n.DialContext(ctx, "tcp", full); !errors.Is(err, context.Canceled) {
			t.Errorf("a dial of a context that has ended gave %v", err)
		}
		eventually(t, "nothing left behind", func() bool { return w.Stats().OpsLive == 0 })

		// The end of the context after the dial does not touch the connection; one that comes at the same time leaves nothing.
		ln := listen(t, n)
		go echo(ln)
		for i := 0; i < 50; i++ {
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			c, err := n.DialContext(ctx, "tcp", ln.Addr().String())
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				continue
			}
			<-ctx.Done()
			c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Error(err)
			}
			c.Close()
		}
		ln.Close()
		eventually(t, "nothing left behind", func() bool { return w.Stats().ObjectsLive == 0 })
	})
}
