// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"quoit"
	"quoit/internal/testkit"
)

const patience = testkit.Patience

var (
	pattern    = testkit.Pattern
	within     = testkit.Within
	eventually = testkit.Eventually
)

// each runs a test on every driver that this machine has, or on the one that QUOIT_DRIVER forces.
func each(t *testing.T, body func(t *testing.T, rt *quoit.Runtime)) {
	testkit.EachDriver[quoit.Driver](t, func(name string) (*quoit.Runtime, error) {
		driver, err := quoit.ParseDriver(name)
		if err != nil {
			return nil, err
		}
		return quoit.NewRuntime(quoit.RuntimeOptions{Driver: driver})
	}, body)
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

// listen listens at a free TCP port until the test ends.
func listen(t *testing.T, n *Net) *Listener {
	t.Helper()
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*Listener)
}

// echo sends back what comes over each connection, until the listener is closed.
func echo(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { io.Copy(c, c); c.Close() }()
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

func abstract(t *testing.T) string { return fmt.Sprint("@quoit-qnet-", syscall.Getpid(), t.Name()) }
