// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"quoit"
)

// listenPacket makes a datagram socket, closed when the test ends.
func listenPacket(t *testing.T, n *Net, network, address string) *PacketConn {
	t.Helper()
	c, err := n.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*PacketConn)
}

// Datagrams of every size go both ways whole, an empty one too, with the address of who sent them.
func TestPackets(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{WriteBuffer: 64 << 10})
		folder := t.TempDir()
		for network, addresses := range map[string][2]string{
			"udp":      {":0", "127.0.0.1:0"},
			"udp4":     {":0", "127.0.0.1:0"},
			"udp6":     {"[::1]:0", "[::1]:0"},
			"unixgram": {filepath.Join(folder, "a"), filepath.Join(folder, "b")},
		} {
			t.Run(network, func(t *testing.T) {
				server := listenPacket(t, n, network, addresses[0])
				client := listenPacket(t, n, network, addresses[1])
				to := server.LocalAddr()
				if udp, ok := to.(*net.UDPAddr); ok && udp.IP.IsUnspecified() {
					to = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: udp.Port}
				}
				buf := make([]byte, 70000)
				for _, size := range []int{0, 1, 1400, 9000, 65507} {
					sent := pattern(size, int64(size))
					if k, err := client.WriteTo(sent, to); k != size || err != nil {
						t.Fatalf("%d bytes: wrote %d, %v", size, k, err)
					}
					k, from, err := server.ReadFrom(buf)
					if err != nil || !bytes.Equal(buf[:k], sent) || from.String() != client.LocalAddr().String() {
						t.Fatalf("%d bytes: read %d of %v, %v", size, k, from, err)
					}
					if _, err := server.WriteTo(buf[:k], from); err != nil {
						t.Fatal(err)
					}
					k, from, err = client.ReadFrom(buf)
					if err != nil || !bytes.Equal(buf[:k], sent) || from.String() != to.String() {
						t.Fatalf("%d bytes came back as %d of %v, %v", size, k, from, err)
					}
				}
				// Of a datagram longer than the memory the rest is lost; the next one is whole.
				client.WriteTo([]byte("longer"), to)
				client.WriteTo([]byte("next"), to)
				if k, info, err := server.ReadPacket(buf[:3]); err != nil || string(buf[:k]) != "lon" || info.Length != 6 {
					t.Errorf("read %q of %d, %v", buf[:k], info.Length, err)
				}
				if k, info, err := server.ReadPacket(buf[:4]); err != nil || string(buf[:k]) != "next" || info.Length != 4 {
					t.Errorf("read %q of %d, %v", buf[:k], info.Length, err)
				}
				if network == "unixgram" {
					if _, err := server.WriteToUDPAddrPort(nil, netip.AddrPort{}); err == nil {
						t.Error("a UDP address was taken for a path")
					}
				} else if k, err := client.WriteToUDPAddrPort([]byte("port"), to.(*net.UDPAddr).AddrPort()); k != 4 || err != nil {
					t.Errorf("wrote %d, %v", k, err)
				} else if k, from, err := server.ReadFromUDPAddrPort(buf); err != nil || string(buf[:k]) != "port" ||
					from.String() != client.LocalAddr().String() {
					t.Errorf("read %q of %v, %v", buf[:k], from, err)
				}
				if network == "unixgram" {
					server.Close()
					if _, err := os.Stat(addresses[0]); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("a socket is left behind: %v", err)
					}
				}
			})
		}
	})
}

// A dialled socket is a net.Conn: it hears its peer alone, and hears when nobody is there.
func TestPacketDial(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		server, stranger := listenPacket(t, n, "udp", "127.0.0.1:0"), listenPacket(t, n, "udp", "127.0.0.1:0")
		c, err := n.Dial("udp", server.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if c.RemoteAddr().String() != server.LocalAddr().String() {
			t.Errorf("connected to %v", c.RemoteAddr())
		}
		if _, err := c.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		k, from, err := server.ReadFrom(buf)
		if err != nil || string(buf[:k]) != "question" || from.String() != c.LocalAddr().String() {
			t.Fatalf("read %q of %v, %v", buf[:k], from, err)
		}
		// What a stranger sends first would be read first, if it were heard.
		if _, err := stranger.WriteTo([]byte("noise"), from); err != nil {
			t.Fatal(err)
		}
		server.WriteTo([]byte("answer"), from)
		if k, err := c.Read(buf); err != nil || string(buf[:k]) != "answer" {
			t.Errorf("read %q, %v", buf[:k], err)
		}
		if _, err := c.(*PacketConn).WriteTo([]byte("x"), from); !errors.Is(err, net.ErrWriteToConnected) {
			t.Errorf("WriteTo of a connected socket: %v", err)
		}
		// Nobody is at the address any more: a read tells, and the socket goes on.
		gone := server.LocalAddr().String()
		server.Close()
		eventually(t, "the server's port is free", func() bool {
			again, err := net.ListenPacket("udp", gone)
			if err != nil {
				return false
			}
			again.Close()
			return true
		})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody is there: %v", err)
		}
		again, err := net.ListenPacket("udp", gone)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		again.SetDeadline(time.Now().Add(patience))
		again.WriteTo([]byte("back"), c.LocalAddr())
		if k, err := c.Read(buf); err != nil || string(buf[:k]) != "back" {
			t.Errorf("read %q, %v", buf[:k], err)
		}
	})
}

func TestPacketRefusals(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		c := listenPacket(t, n, "udp4", "127.0.0.1:0")
		to := c.LocalAddr()
		_, tooLong := c.WriteTo(make([]byte, 65508), to)
		_, alone := c.Write([]byte("x"))
		_, taken := n.ListenPacket("udp4", to.String())
		for what, check := range map[string]struct{ got, want error }{
			"too long":         {tooLong, syscall.EMSGSIZE},
			"no peer":          {alone, syscall.EDESTADDRREQ},
			"an address taken": {taken, syscall.EADDRINUSE},
		} {
			if !errors.Is(check.got, check.want) {
				t.Errorf("%s: %v", what, check.got)
			}
		}
		var unknown net.UnknownNetworkError
		if _, err := n.ListenPacket("tcp", "127.0.0.1:0"); !errors.As(err, &unknown) {
			t.Errorf("an unknown network: %v", err)
		}
		var address *net.AddrError
		for _, bad := range []net.Addr{nil, &net.TCPAddr{}, (*net.UDPAddr)(nil), &net.UnixAddr{Name: "/x", Net: "unixgram"}} {
			if _, err := c.WriteTo([]byte("x"), bad); !errors.As(err, &address) {
				t.Errorf("to %v: %v", bad, err)
			}
		}
		// An error of sending is told by the next write, once.
		nowhere := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "nobody"), Net: "unixgram"}
		u := listenPacket(t, n, "unixgram", fmt.Sprint("@quoit-qnet-packet-", syscall.Getpid(), t.Name()))
		if _, err := u.WriteTo([]byte("x"), nowhere); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the error of a send", func() bool {
			u.mu.Lock()
			defer u.mu.Unlock()
			return u.sendError != nil
		})
		if _, err := u.WriteTo([]byte("x"), u.LocalAddr()); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("a write after one that failed: %v", err)
		}
		if _, err := u.WriteTo([]byte("y"), u.LocalAddr()); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 1)
		if _, _, err := u.ReadFrom(buf); err != nil || buf[0] != 'y' {
			t.Errorf("read %q, %v", buf, err)
		}
	})
}

// Deadlines and Close end who waits; a reader that does not read holds no more than it may.
func TestPacketWaits(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{ReadBuffer: 32 << 10, Worker: quoit.WorkerOptions{EventsMax: 16}})
		server, client := listenPacket(t, n, "udp", "127.0.0.1:0"), listenPacket(t, n, "udp", "127.0.0.1:0")
		ends := make(chan error, 4)
		read := func() { _, _, err := server.ReadFrom(make([]byte, 1)); ends <- err }
		go read()
		server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		within(t, "the deadline", func() {
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a read ended with %v", err)
			}
		})
		server.SetReadDeadline(time.Time{})
		client.SetWriteDeadline(time.Unix(1, 0))
		if _, err := client.WriteTo([]byte("x"), server.LocalAddr()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write past its deadline: %v", err)
		}
		client.SetWriteDeadline(time.Time{})

		const size = 1000
		held := func() (int, bool) {
			server.mu.Lock()
			defer server.mu.Unlock()
			return server.in.size(), server.paused
		}
		for i := 0; ; i++ {
			if _, paused := held(); paused {
				break
			}
			if i == 10000 {
				t.Fatal("a socket that nobody reads did not stop receiving")
			}
			if _, err := client.WriteTo(make([]byte, size), server.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < 200; i++ {
			client.WriteTo(make([]byte, size), server.LocalAddr())
		}
		if size, _ := held(); size > 32<<10+17*(1000+packetOverhead) {
			t.Errorf("%d bytes wait", size)
		}
		// Read all that waits, here and in the kernel; then it goes on.
		server.SetReadDeadline(time.Now().Add(patience))
		mark := []byte("mark")
		buf := make([]byte, size)
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Add(1)
		go func() { // sent until it is heard: a full kernel drops
			defer group.Done()
			for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
				select {
				case <-stop:
					tick.Stop()
					return
				default:
					client.WriteTo(mark, server.LocalAddr())
				}
			}
		}()
		for {
			k, _, err := server.ReadFrom(buf)
			if err != nil {
				t.Error(err)
				break
			}
			if bytes.Equal(buf[:k], mark) {
				break
			}
		}
		close(stop)
		group.Wait()
		idle := listenPacket(t, n, "udp", "127.0.0.1:0")
		for i := 0; i < 3; i++ {
			go func() { _, _, err := idle.ReadFrom(buf); ends <- err }()
		}
		idle.Close()
		within(t, "those who waited", func() {
			for i := 0; i < 3; i++ {
				if err := <-ends; !errors.Is(err, net.ErrClosed) {
					t.Errorf("one who waited got %v", err)
				}
			}
		})
		if err := idle.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
		if _, err := idle.WriteTo(mark, server.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after Close: %v", err)
		}
	})
}

// The end of a Net ends its datagram sockets; Shutdown lets what was written leave.
func TestPacketNetEnds(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		outside, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer outside.Close()
		outside.SetDeadline(time.Now().Add(patience))
		n := open(t, rt, Options{})
		c := listenPacket(t, n, "udp", "127.0.0.1:0")
		ends := make(chan error, 1)
		go func() { _, _, err := c.ReadFrom(make([]byte, 1)); ends <- err }()
		if _, err := c.WriteTo([]byte("bye"), outside.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if err := n.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		within(t, "the reader", func() {
			if err := <-ends; !errors.Is(err, net.ErrClosed) {
				t.Errorf("a reader got %v", err)
			}
		})
		buf := make([]byte, 10)
		if k, _, err := outside.ReadFrom(buf); err != nil || string(buf[:k]) != "bye" {
			t.Errorf("heard %q, %v", buf[:k], err)
		}
		if _, err := n.ListenPacket("udp", "127.0.0.1:0"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("ListenPacket afterwards: %v", err)
		}
	})
}
