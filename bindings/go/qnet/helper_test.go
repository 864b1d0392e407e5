// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"quoit"
)

// patience bounds every wait of the tests; none of them waits that long when all is well.
const patience = 60 * time.Second

// each runs a test on every driver that this machine has, or on the one that QUOIT_DRIVER forces, and checks that it
// is the one that runs.
func each(t *testing.T, body func(t *testing.T, rt *quoit.Runtime)) {
	drivers := []quoit.Driver{quoit.DriverURingDefer, quoit.DriverURingCoop, quoit.DriverURingPlain, quoit.DriverEpoll}
	forced := os.Getenv("QUOIT_DRIVER")
	if forced != "" {
		driver, err := quoit.ParseDriver(forced)
		if err != nil {
			t.Fatal(err)
		}
		drivers = []quoit.Driver{driver}
	}
	for _, driver := range drivers {
		t.Run(driver.String(), func(t *testing.T) {
			rt, err := quoit.NewRuntime(quoit.RuntimeOptions{Driver: driver})
			if err != nil && forced == "" {
				t.Skip("this machine does not have it: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if ran := rt.Driver(); ran != driver && driver != quoit.DriverURing && driver != quoit.DriverAuto {
				t.Fatalf("asked for %v, got %v", driver, ran)
			}
			t.Cleanup(func() {
				if err := rt.Close(); err != nil {
					t.Error(err)
				}
			})
			body(t, rt)
		})
	}
}

// open makes a Net, which must end without an error when the test ends.
func open(t *testing.T, rt *quoit.Runtime, o Options) *Net {
	t.Helper()
	n, err := New(rt, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error("the net ended with: ", err)
		}
	})
	return n
}

// places are addresses to listen on, one of each kind.
var places = map[string]func(t *testing.T) (network, address string){
	"tcp":  func(*testing.T) (string, string) { return "tcp", "127.0.0.1:0" },
	"unix": func(t *testing.T) (string, string) { return "unix", filepath.Join(t.TempDir(), "s") },
}

// everyPlace runs a test over TCP and over a Unix socket.
func everyPlace(t *testing.T, body func(t *testing.T, network, address string)) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			network, address := place(t)
			body(t, network, address)
		})
	}
}

// pair makes both ends of a connection.
func (n *Net) pair(network, address string) (ln net.Listener, client, server *Conn, err error) {
	if ln, err = n.Listen(network, address); err != nil {
		return nil, nil, nil, err
	}
	dialled, err := n.DialTimeout(network, ln.Addr().String(), patience)
	if err != nil {
		ln.Close()
		return nil, nil, nil, err
	}
	accepted, err := ln.Accept()
	if err != nil {
		ln.Close()
		dialled.Close()
		return nil, nil, nil, err
	}
	return ln, dialled.(*Conn), accepted.(*Conn), nil
}

// connect is pair for a test, closed when it ends.
func connect(t *testing.T, n *Net, network, address string) (client, server *Conn) {
	t.Helper()
	ln, client, server, err := n.pair(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		ln.Close()
	})
	return client, server
}

// within fails the test if f does not return in time.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		f()
	}()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("in vain waited for: ", what)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("in vain waited for: ", what)
		}
		time.Sleep(time.Millisecond) // between looks, not instead of them
	}
}

// pattern is n bytes that differ with the seed and from one place to the next.
func pattern(n int, seed int64) []byte {
	p := make([]byte, n)
	for begin := int(seed*7919) % len(noise); n > 0; begin = 0 {
		n -= copy(p[len(p)-n:], noise[begin:])
	}
	return p
}

// noise has a prime length, so that no buffer size divides it.
var noise = func() []byte {
	p := make([]byte, 65521)
	rand.New(rand.NewSource(1)).Read(p)
	return p
}()

func abstract(t *testing.T) string { return fmt.Sprint("@quoit-qnet-", syscall.Getpid(), t.Name()) }
