// SPDX-License-Identifier: MIT OR Apache-2.0

// Package testkit is what the tests of package quoit and of its packages share.
package testkit

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait of the tests; none of them waits that long when all is well.
const Patience = 60 * time.Second

// runtime is quoit.Runtime, which this package cannot name: the tests inside package quoit use it too.
type runtime[D fmt.Stringer] interface {
	Driver() D
	Close() error
}

// EachDriver runs a test on every driver that this machine has, or on the one that QUOIT_DRIVER forces, and checks that
// it is the one that runs. open makes the runtime of a driver.
func EachDriver[D fmt.Stringer, R runtime[D]](t *testing.T, open func(name string) (R, error), body func(t *testing.T, rt R)) {
	names := []string{"uring-defer", "uring-coop", "uring-plain", "epoll"}
	forced := os.Getenv("QUOIT_DRIVER")
	if forced != "" {
		names = []string{forced}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rt, err := open(name)
			if err != nil && forced == "" {
				t.Skip("this machine does not have it: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if ran := rt.Driver().String(); ran != name && name != "uring" && name != "auto" {
				t.Fatalf("asked for %s, got %s", name, ran)
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

// Pattern is n bytes that differ with the seed and from one place to the next.
func Pattern(n int, seed int64) []byte {
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

// Within fails the test if f does not return in time.
func Within(t testing.TB, what string, f func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		f()
	}()
	select {
	case <-over:
	case <-time.After(Patience):
		t.Fatal("in vain waited for: ", what)
	}
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("in vain waited for: ", what)
		}
		time.Sleep(time.Millisecond) // between looks, not instead of them
	}
}

// FullListener is an address where connecting neither succeeds nor fails: its backlog is full and nobody accepts.
func FullListener(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}).String()
	waiting, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { waiting.Close() })
	return addr
}
