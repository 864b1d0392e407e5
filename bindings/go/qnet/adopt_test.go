// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"quoit"
)

type filer interface{ File() (*os.File, error) }

// fileOf gives a socket of Go's net as a file and closes the original.
func fileOf(t *testing.T, from io.Closer) *os.File {
	t.Helper()
	f, err := from.(filer).File()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	t.Cleanup(func() { f.Close() })
	return f
}

// Sockets that Go's own net made are carried on: a listener, what it accepts, a connection, a datagram socket.
func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		everyPlace(t, func(t *testing.T, network, address string) {
			plain, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			if unix, ok := plain.(*net.UnixListener); ok {
				unix.SetUnlinkOnClose(false)
			}
			ln, err := n.FileListener(fileOf(t, plain))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			if ln.Addr().String() != plain.Addr().String() || ln.Addr().Network() != network {
				t.Errorf("it is at %v %v", ln.Addr().Network(), ln.Addr())
			}
			go echo(ln)
			dialled, err := net.Dial(network, ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c, err := n.FileConn(fileOf(t, dialled))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			sent, got := pattern(100000, 3), make([]byte, 100000)
			go c.Write(sent)
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("came back changed: %v", err)
			}
		})
		plain, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f := fileOf(t, plain)
		c, err := n.FilePacketConn(f)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.WriteTo([]byte("me"), plain.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 9)
		if k, from, err := c.ReadFrom(buf); string(buf[:k]) != "me" || from.String() != plain.LocalAddr().String() || err != nil {
			t.Errorf("read %q of %v, %v", buf[:k], from, err)
		}
		if _, err := n.FileListener(f); !errors.Is(err, quoit.EKind) {
			t.Errorf("a datagram socket as a listener: %v", err)
		}
		if list, err := n.Inherited(); len(list) != 0 || err != nil {
			t.Errorf("inherited %v, %v", list, err)
		}
	})
}

// A detached connection takes all that was written and received with it, also what a pause had held back.
func TestDetach(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{ReadBuffer: 16 << 10})
		everyPlace(t, func(t *testing.T, network, address string) {
			client, server := connect(t, n, network, address)
			there, back := pattern(300000, 7), pattern(200000, 8)
			wrote := make(chan error, 1)
			go func() { _, err := client.Write(there); wrote <- err }()
			eventually(t, "a pause", func() bool { server.mu.Lock(); defer server.mu.Unlock(); return server.paused })
			first := make([]byte, 1000)
			if _, err := io.ReadFull(server, first); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Write(back); err != nil {
				t.Fatal(err)
			}
			answered := make(chan []byte, 1)
			go func() { got := make([]byte, len(back)); io.ReadFull(client, got); answered <- got }()
			f, unread, err := server.Detach()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if !bytes.Equal(<-answered, back) {
				t.Error("what was written before did not arrive whole")
			}
			plain, err := net.FileConn(f)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			plain.SetDeadline(time.Now().Add(patience))
			rest := make([]byte, len(there)-len(first)-len(unread))
			if _, err := io.ReadFull(plain, rest); err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if got := append(append(first, unread...), rest...); !bytes.Equal(got, there) {
				t.Error("what was received is not whole")
			}
			if _, _, err := server.Detach(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a second Detach: %v", err)
			}
			if _, err := server.Read(first); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a read afterwards: %v", err)
			}
		})
	})
}
