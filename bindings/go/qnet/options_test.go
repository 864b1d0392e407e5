// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"quoit"
)

type optioned interface {
	Option(option uint32) (int64, error)
}

func wantOption(t *testing.T, what string, s optioned, option uint32, want int64) {
	t.Helper()
	if got, err := s.Option(option); got != want || err != nil {
		t.Errorf("%s: option %d is %d, %v; want %d", what, option, got, err, want)
	}
}

// Options given to ListenConfig and Dialer are those of the sockets, the accepted ones too, and can be changed later.
func TestSocketOptions(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{Workers: 2})
		ctx := context.Background()
		lc := ListenConfig{Net: n, ReusePort: true, DeferAccept: time.Second,
			SocketOptions: SocketOptions{KeepAlive: 40 * time.Second, TOS: 16}}
		made, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		ln := made.(*Listener)
		wantOption(t, "listener", ln, quoit.SocketReuseport, 1)
		wantOption(t, "listener", ln, quoit.SocketTOS, 16)
		if by, err := ln.Option(quoit.SocketDeferAccept); by < int64(time.Second) || err != nil {
			t.Errorf("accepting is deferred by %d, %v", by, err)
		}
		d := Dialer{Net: n, Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 5)},
			SocketOptions: SocketOptions{Delay: true, KeepAlive: 30 * time.Second, KeepAliveInterval: 7 * time.Second,
				KeepAliveCount: 3, UserTimeout: time.Minute, WriteBuffer: 32 << 10, Priority: 2}}
		dialled, err := d.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer dialled.Close()
		dialled.Write([]byte("x")) // accepting was deferred until then
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if ip := accepted.RemoteAddr().(*net.TCPAddr).IP; !ip.Equal(net.IPv4(127, 0, 0, 5)) {
			t.Errorf("dialled from %v", ip)
		}
		client, server := dialled.(*Conn), accepted.(*Conn)
		for option, want := range map[uint32]int64{
			quoit.SocketNodelay: 0, quoit.SocketKeepalive: 1, quoit.SocketKeepaliveIdle: int64(30 * time.Second),
			quoit.SocketKeepaliveInterval: int64(7 * time.Second), quoit.SocketKeepaliveCount: 3,
			quoit.SocketUserTimeout: int64(time.Minute), quoit.SocketPriority: 2,
		} {
			wantOption(t, "dialled", client, option, want)
		}
		wantOption(t, "accepted", server, quoit.SocketNodelay, 1)
		wantOption(t, "accepted", server, quoit.SocketKeepalive, 1)
		wantOption(t, "accepted", server, quoit.SocketKeepaliveIdle, int64(40*time.Second))
		wantOption(t, "accepted", server, quoit.SocketTOS, 16)
		before, _ := client.Option(quoit.SocketSendBuffer)
		for what, err := range map[string]error{
			"SetNoDelay":         client.SetNoDelay(true),
			"SetKeepAlive":       client.SetKeepAlive(false),
			"SetKeepAlivePeriod": client.SetKeepAlivePeriod(5 * time.Second),
			"SetReadBuffer":      client.SetReadBuffer(64 << 10),
			"SetWriteBuffer":     client.SetWriteBuffer(128 << 10),
			"of the listener":    ln.SetOption(quoit.SocketTOS, 8),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantOption(t, "later", client, quoit.SocketNodelay, 1)
		wantOption(t, "later", client, quoit.SocketKeepalive, 0)
		wantOption(t, "later", client, quoit.SocketKeepaliveIdle, int64(5*time.Second))
		wantOption(t, "later", ln, quoit.SocketTOS, 8)
		if after, _ := client.Option(quoit.SocketSendBuffer); after <= before {
			t.Errorf("the send buffer went from %d to %d", before, after)
		}
		client.Close()
		if err := client.SetNoDelay(true); !errors.Is(err, net.ErrClosed) {
			t.Errorf("an option of a closed connection: %v", err)
		}
	})
}

// What is refused is told, names the socket, and leaves nothing behind.
func TestSocketOptionRefusals(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ctx := context.Background()
		w := n.Workers()[0]
		bad := SocketOptions{More: []quoit.SocketOption{{Option: 999, Value: 1}}}
		ln := listen(t, n)
		idle := w.Stats()
		_, listened := (&ListenConfig{Net: n, SocketOptions: bad}).Listen(ctx, "tcp", "127.0.0.1:0")
		_, bound := (&ListenConfig{Net: n, SocketOptions: bad}).ListenPacket(ctx, "udp", "127.0.0.1:0")
		_, dialled := (&Dialer{Net: n, SocketOptions: bad}).Dial("tcp", ln.Addr().String())
		for what, err := range map[string]error{"Listen": listened, "ListenPacket": bound, "Dial": dialled,
			"SetOption": ln.SetOption(999, 1)} {
			var wrapped *net.OpError
			if !errors.Is(err, quoit.EField) || !errors.As(err, &wrapped) {
				t.Errorf("%s: %v", what, err)
			}
		}
		c, err := ln.Accept() // its peer has gone
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection whose dial failed lives on")
		}
		if err := c.(*Conn).SetLinger(5); !errors.Is(err, quoit.EField) {
			t.Errorf("SetLinger(5): %v", err)
		}
		c.Close()
		eventually(t, "nothing left behind", func() bool { return w.Stats().ObjectsLive == idle.ObjectsLive })
		if _, err := ln.Option(999); !errors.Is(err, quoit.EArgument) {
			t.Errorf("Option: %v", err)
		}
		for what, err := range map[string]error{
			"no Net to listen": func() error { _, err := (&ListenConfig{}).Listen(ctx, "tcp", ":0"); return err }(),
			"no Net to dial":   func() error { _, err := (&Dialer{}).Dial("tcp", ":1"); return err }(),
			"a backlog below zero": func() error {
				_, err := (&ListenConfig{Net: n, Backlog: -1}).ListenPacket(ctx, "udp", ":0")
				return err
			}(),
		} {
			if !errors.Is(err, os.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		var address *net.AddrError
		if _, err := (&Dialer{Net: n, LocalAddr: &net.UDPAddr{}}).Dial("tcp", ln.Addr().String()); !errors.As(err, &address) {
			t.Errorf("dialling from an address of another network: %v", err)
		}
	})
}

// Flags of listening: an address that is not there yet, IPv6 alone, a bound of connections, a path that was left.
func TestListenConfig(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ctx := context.Background()
		const elsewhere = "192.0.2.77:0" // of a network for documentation
		if _, err := n.Listen("tcp", elsewhere); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("an address of nobody: %v", err)
		}
		ln, err := (&ListenConfig{Net: n, FreeBind: true}).Listen(ctx, "tcp", elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		wantOption(t, "free", ln.(*Listener), quoit.SocketFreebind, 1)
		ln.Close()
		if ln, err = (&ListenConfig{Net: n, V6Only: true, StreamsMax: 1}).Listen(ctx, "tcp", "[::1]:0"); err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		wantOption(t, "IPv6 alone", ln.(*Listener), quoit.SocketV6Only, 1)
		path := t.TempDir() + "/s"
		left, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		left.(*net.UnixListener).SetUnlinkOnClose(false)
		left.Close()
		if _, err := n.Listen("unix", path); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a path that was left: %v", err)
		}
		again, err := (&ListenConfig{Net: n, Unlink: true}).Listen(ctx, "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()

		c, err := (&ListenConfig{Net: n, MaxDatagram: 4, SocketOptions: SocketOptions{ReadBuffer: 32 << 10}}).
			ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p := c.(*PacketConn)
		before, _ := p.Option(quoit.SocketRecvBuffer)
		if err := p.SetReadBuffer(128 << 10); err != nil {
			t.Error(err)
		}
		if err := p.SetWriteBuffer(64 << 10); err != nil {
			t.Error(err)
		}
		if after, _ := p.Option(quoit.SocketRecvBuffer); after <= before {
			t.Errorf("the receive buffer went from %d to %d", before, after)
		}
		p.SetDeadline(time.Now().Add(patience))
		p.WriteTo([]byte("longer"), p.LocalAddr())
		buf := make([]byte, 16)
		if k, info, err := p.ReadPacket(buf); string(buf[:k]) != "long" || info.Length != 6 || err != nil {
			t.Errorf("read %q of %d, %v", buf[:k], info.Length, err)
		}
		all := &net.UDPAddr{IP: net.IPv4(127, 255, 255, 255), Port: 9}
		loud, err := (&ListenConfig{Net: n, Broadcast: true}).ListenPacket(ctx, "udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer loud.Close()
		for c, want := range map[*PacketConn]error{p: syscall.EACCES, loud.(*PacketConn): nil} {
			c.WriteTo([]byte("all"), all)
			eventually(t, "the end of a send", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.owed+c.out.size() == 0 })
			c.mu.Lock()
			if !errors.Is(c.sendError, want) {
				t.Errorf("a broadcast: %v, want %v", c.sendError, want)
			}
			c.mu.Unlock()
		}
	})
}

// SetLinger(0) makes Close reset the connection.
func TestSetLinger(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ln := listen(t, n)
		for _, try := range []struct {
			seconds int
			want    error
		}{{0, syscall.ECONNRESET}, {-1, nil}} {
			peer, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.(*Conn).SetLinger(try.seconds); err != nil {
				t.Fatal(err)
			}
			c.Close()
			peer.SetDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(peer); !errors.Is(err, try.want) {
				t.Errorf("linger %d: the peer reads %v", try.seconds, err)
			}
		}
	})
}
