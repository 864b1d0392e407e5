// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"

	"quoit"
)

// datagrams says which addresses a network may have, as streams does.
var datagrams = map[string]int{"udp": 0, "udp4": 4, "udp6": 6, "unixgram": -1}

// ListenPacket makes a datagram socket (a *PacketConn) of a network: "udp", "udp4", "udp6" ("host:port", an empty host for
// all addresses, port 0 for one that is free) or "unixgram" (a path, removed again by Close, or "@name").
func (n *Net) ListenPacket(network, address string) (net.PacketConn, error) {
	c, err := n.listenPacket(context.Background(), network, address, quoit.BindOptions{})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (n *Net) listenPacket(ctx context.Context, network, address string, o quoit.BindOptions) (*PacketConn, error) {
	targets, err := bindTargets(ctx, network, address, datagrams)
	if network == "udp6" {
		o.Flags |= quoit.BindV6Only
	}
	var c *PacketConn
	for i := 0; err == nil; i++ {
		if c, err = n.bind(ctx, network, targets[i], o); err == nil {
			return c, nil
		}
		if i < len(targets)-1 && lacksFamily(err) {
			err = nil
		}
	}
	return nil, &net.OpError{Op: "listen", Net: network, Addr: named{network, address}, Err: err}
}

// dialPacket makes a datagram socket that is connected to a peer.
func (n *Net) dialPacket(ctx context.Context, network, target string, o quoit.DialOptions) (net.Conn, error) {
	c, err := n.bind(ctx, network, o.Local, quoit.BindOptions{Peer: target, Socket: o.Socket})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (n *Net) bind(ctx context.Context, network, target string, o quoit.BindOptions) (*PacketConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n.isClosed() {
		return nil, net.ErrClosed
	}
	l := n.loops[int(n.next.Add(1))%len(n.loops)]
	c := &PacketConn{}
	c.init(l, network)
	c.sentFn = c.sent
	err := l.ask(func(done func(err error)) {
		l.w.Bind(target, o, c, func(s *quoit.DatagramSocket, err error) {
			if err == nil {
				local := s.Local()
				c.s, c.v6, c.local = s, local.Family == quoit.FamilyV6, netAddr(network, local)
				if o.Peer != "" {
					c.remote = netAddr(network, s.Remote())
				}
				l.packetConns[c] = struct{}{}
			}
			done(err)
		})
	})
	if err == nil && n.isClosed() {
		c.Close()
		err = net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// JoinGroup makes a UDP socket hear what is sent to a multicast group, a *net.UDPAddr whose port is not looked at, by way
// of an interface (nil: the kernel's choice). EADDRINUSE: it is a member already.
func (c *PacketConn) JoinGroup(ifi *net.Interface, group net.Addr) error {
	return c.multicast("join", (*quoit.DatagramSocket).Join, ifi, group)
}

// LeaveGroup undoes JoinGroup. EADDRNOTAVAIL: it is no member.
func (c *PacketConn) LeaveGroup(ifi *net.Interface, group net.Addr) error {
	return c.multicast("leave", (*quoit.DatagramSocket).Leave, ifi, group)
}

func (c *PacketConn) multicast(op string, do func(*quoit.DatagramSocket, quoit.Addr, func(error)),
	ifi *net.Interface, group net.Addr) error {
	a, err := quoitAddr(c.network, group)
	if a.Port = 0; ifi != nil {
		a.Scope = uint32(ifi.Index)
	}
	if err == nil {
		err = c.ask(func(done func(err error)) { do(c.s, a, done) })
	}
	if err != nil {
		return c.opErrorTo(op, group, err)
	}
	return nil
}

// ask is that of the loop, unless the socket is closed.
func (c *endpoint) ask(f func(done func(err error))) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return c.l.ask(f)
}

// ReadFromUDPAddrPort is ReadFrom without an allocation for the address, as that of net.UDPConn. An IPv4 address is
// told as such by an IPv6 socket too.
func (c *PacketConn) ReadFromUDPAddrPort(p []byte) (int, netip.AddrPort, error) {
	n, got, err := c.receive(p)
	return n, addrPort(got.from), err
}

// WriteToUDPAddrPort is WriteTo with such an address.
func (c *PacketConn) WriteToUDPAddrPort(p []byte, to netip.AddrPort) (int, error) {
	a, err := fromAddrPort(c.network, to)
	switch {
	case c.remote != nil:
		err = net.ErrWriteToConnected
	case err == nil:
		return c.send(p, packet{to: a}, nil)
	}
	return 0, c.opErrorTo("write", net.UDPAddrFromAddrPort(to), err)
}

func addrPort(a quoit.Addr) netip.AddrPort {
	switch a.Family {
	case quoit.FamilyV4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{a.Bytes[0], a.Bytes[1], a.Bytes[2], a.Bytes[3]}), a.Port)
	case quoit.FamilyV6:
		var b [16]byte
		copy(b[:], a.Bytes[:])
		ip := netip.AddrFrom16(b).Unmap()
		if a.Scope != 0 {
			_, zone := ipOf(a)
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, a.Port)
	}
	return netip.AddrPort{}
}

// fromAddrPort is an address as quoit has it. An IPv4 one is such, for a socket of either family.
func fromAddrPort(network string, from netip.AddrPort) (quoit.Addr, error) {
	a := quoit.Addr{Port: from.Port()}
	ip := from.Addr().Unmap()
	switch {
	case !strings.HasPrefix(network, "udp") || !ip.IsValid():
		return a, &net.AddrError{Err: "not an address of " + network, Addr: from.String()}
	case ip.Is4():
		b := ip.As4()
		a.Family, a.Len = quoit.FamilyV4, uint32(copy(a.Bytes[:], b[:]))
	default:
		b := ip.As16()
		a.Family, a.Len, a.Scope = quoit.FamilyV6, uint32(copy(a.Bytes[:], b[:])), scopeOf(ip.Zone())
	}
	return a, nil
}

// quoitAddr is an address of package net as quoit has it. A UDP address without an IP is this machine.
func quoitAddr(network string, to net.Addr) (quoit.Addr, error) {
	switch a := to.(type) {
	case *net.UDPAddr:
		if a == nil {
			break
		}
		from := a.AddrPort()
		if len(a.IP) == 0 {
			ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
			if network == "udp6" {
				ip = netip.AddrFrom16([16]byte{15: 1})
			}
			from = netip.AddrPortFrom(ip, from.Port())
		}
		return fromAddrPort(network, from)
	case *net.UnixAddr:
		if a != nil && network == "unixgram" {
			return quoit.ParseAddr("unix:" + a.Name)
		}
	}
	text := "<nil>"
	if to != nil && to != net.Addr((*net.UDPAddr)(nil)) && to != net.Addr((*net.UnixAddr)(nil)) {
		text = to.String()
	}
	return quoit.Addr{}, &net.AddrError{Err: "not an address of " + network, Addr: text}
}

// source is where a datagram of ours is to leave from: an address of the socket's own family, without a port.
func (c *PacketConn) source(from net.Addr, ifi int) (a quoit.Addr, err error) {
	if !strings.HasPrefix(c.network, "udp") || ifi < 0 {
		return a, os.ErrInvalid
	}
	if from != nil {
		if a, err = quoitAddr(c.network, from); err != nil {
			return a, err
		}
	}
	if c.v6 && a.Family == quoit.FamilyV4 { // as an IPv6 socket has it: ::ffff:a.b.c.d
		copy(a.Bytes[12:16], a.Bytes[:4])
		copy(a.Bytes[:12], []byte{10: 0xFF, 11: 0xFF})
		a.Family, a.Len = quoit.FamilyV6, net.IPv6len
	}
	a.Port, a.Scope = 0, uint32(ifi)
	return a, nil
}
