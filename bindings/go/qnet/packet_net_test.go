// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"quoit"
)

// asStream makes a stream of a datagram socket whose peer loses nothing, as nettest wants one: a datagram is bytes of it,
// one without bytes its end.
type asStream struct {
	*PacketConn
	to net.Addr

	reading sync.Mutex
	left    []byte
	buffer  [4096]byte
}

func (s *asStream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if len(s.left) == 0 {
		n, _, err := s.ReadFrom(s.buffer[:])
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return 0, err
		}
		s.left = s.buffer[:n]
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *asStream) Write(p []byte) (int, error) { return s.WriteTo(p, s.to) }
func (s *asStream) RemoteAddr() net.Addr        { return s.to }

// Close sends the end even where a write would have to wait.
func (s *asStream) Close() error {
	to, err := quoitAddr("unixgram", s.to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if !s.closed && !s.over {
		s.out.push(nil, packet{to: to})
		s.post()
	}
	s.mu.Unlock()
	return s.PacketConn.Close()
}

// The eleven tests of nettest over Unix datagrams: deadlines, concurrency, back-pressure and Close are those of a stream.
func TestNettestPackets(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			folder, err := os.MkdirTemp("", "qnet")
			if err != nil {
				return nil, nil, nil, err
			}
			var ends [2]*asStream
			for i, name := range []string{"a", "b"} {
				c, err := n.ListenPacket("unixgram", filepath.Join(folder, name))
				if err != nil {
					return nil, nil, nil, err
				}
				ends[i] = &asStream{PacketConn: c.(*PacketConn)}
			}
			ends[0].to, ends[1].to = ends[1].LocalAddr(), ends[0].LocalAddr()
			return ends[0], ends[1], func() {
				ends[0].Close()
				ends[1].Close()
				os.RemoveAll(folder)
			}, nil
		})
	})
}

// Many write and many read at once, deadlines end reads all the time, and every datagram is read once.
func TestPacketsLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{Workers: 2, WriteBuffer: 8 << 10, ReadBuffer: 8 << 10})
		folder := t.TempDir()
		server := listenPacket(t, n, "unixgram", filepath.Join(folder, "server"))
		const writers, readers, each = 4, 3, 250
		var group sync.WaitGroup
		for w := 0; w < writers; w++ {
			client := listenPacket(t, n, "unixgram", filepath.Join(folder, string(rune('a'+w))))
			group.Add(1)
			go func(w int) {
				defer group.Done()
				for i := 0; i < each; i++ {
					p := binary.BigEndian.AppendUint32(nil, uint32(w*each+i))
					if _, err := client.WriteTo(p, server.LocalAddr()); err != nil {
						t.Error(err)
						return
					}
				}
			}(w)
		}
		var mu sync.Mutex
		seen, late := map[uint32]int{}, 0
		for r := 0; r < readers; r++ {
			group.Add(1)
			go func() {
				defer group.Done()
				p := make([]byte, 8)
				for {
					k, _, err := server.ReadFrom(p)
					mu.Lock()
					switch {
					case errors.Is(err, os.ErrDeadlineExceeded):
						late++
					case err != nil || k != 4:
						t.Errorf("read %d, %v", k, err)
						seen = nil
					default:
						seen[binary.BigEndian.Uint32(p)]++
					}
					over := seen == nil || len(seen) == writers*each
					mu.Unlock()
					if over {
						server.SetReadDeadline(time.Unix(1, 0)) // for the others
						return
					}
					server.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
				}
			}()
		}
		within(t, "all datagrams", group.Wait)
		for number, times := range seen {
			if times != 1 {
				t.Errorf("datagram %d was read %d times", number, times)
			}
		}
		if late == 0 {
			t.Error("no deadline ended a read")
		}
	})
}

// Members of a group hear what is sent to it, who left does not; a datagram tells by which way it came and leaves as asked.
func TestMulticast(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			t.Skip("no loopback device: ", err)
		}
		group := &net.UDPAddr{IP: net.IPv4(239, 255, 77, 90)}
		bind := func(flags uint32) *PacketConn {
			c, err := n.listenPacket(context.Background(), "udp4", ":0", quoit.BindOptions{Flags: flags})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(patience))
			return c
		}
		member, sender := bind(quoit.BindPacketInfo), bind(0)
		if err := member.JoinGroup(lo, group); err != nil {
			t.Fatal(err)
		}
		if err := member.JoinGroup(lo, group); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("joined twice: %v", err)
		}
		port := member.LocalAddr().(*net.UDPAddr).Port
		to := &net.UDPAddr{IP: group.IP, Port: port}
		buf := make([]byte, 16)
		hear := func(want string, at net.IP) {
			t.Helper()
			k, info, err := member.ReadPacket(buf)
			if err != nil || string(buf[:k]) != want || info.Interface != lo.Index || !info.To.(*net.UDPAddr).IP.Equal(at) {
				t.Errorf("heard %q, %+v, %v", buf[:k], info, err)
			}
		}
		if _, err := sender.WritePacket([]byte("all"), Packet{To: to, Interface: lo.Index}); err != nil {
			t.Fatal(err)
		}
		hear("all", group.IP)
		if err := member.LeaveGroup(lo, group); err != nil {
			t.Fatal(err)
		}
		if err := member.LeaveGroup(lo, group); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("left twice: %v", err)
		}
		// What was sent to the group would be heard before this; it leaves from an address of our choice.
		here := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		sender.WritePacket([]byte("none"), Packet{To: to, Interface: lo.Index})
		if _, err := sender.WritePacket([]byte("one"), Packet{To: here, From: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 7)}}); err != nil {
			t.Fatal(err)
		}
		k, info, err := member.ReadPacket(buf)
		if err != nil || string(buf[:k]) != "one" || !info.From.(*net.UDPAddr).IP.Equal(net.IPv4(127, 0, 0, 7)) {
			t.Errorf("heard %q, %+v, %v", buf[:k], info, err)
		}
		if err := sender.JoinGroup(nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err == nil {
			t.Error("joined what is no group")
		}
		sender.Close()
		if err := sender.JoinGroup(lo, group); !errors.Is(err, net.ErrClosed) {
			t.Errorf("joined with a closed socket: %v", err)
		}
	})
}
