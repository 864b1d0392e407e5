// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"quoit"
)

// ListenConfig listens with options, as net.ListenConfig does. Net must be set; zero otherwise means the default.
type ListenConfig struct {
	Net *Net
	SocketOptions
	ReusePort   bool          // others may listen at the address too; on anyway where many workers share a TCP port
	V6Only      bool          // an IPv6 socket takes no IPv4; on anyway for "tcp6" and "udp6"
	FreeBind    bool          // streams: the address need not be one of this machine yet
	DeferAccept time.Duration // TCP: accept a connection when its first bytes are there, or after this time
	Backlog     int           // streams: how many connections wait in the kernel
	Unlink      bool          // Unix: remove a socket that an earlier process left at the path
	// StreamsMax bounds a listener's connections at one time, per worker; more wait in the backlog.
	StreamsMax int
	// PacketInfo: PacketConn.ReadPacket tells where each datagram was sent to. Broadcast: datagrams may be sent to such addresses.
	PacketInfo, Broadcast bool
	// MaxDatagram is how many bytes of a datagram are received; of a longer one ReadPacket tells the length. 0: all. A small
	// one (see quoit.BindOptions) makes receiving cheaper.
	MaxDatagram int
}

func (lc *ListenConfig) check(network, address string) error {
	if lc.Net == nil || lc.Backlog < 0 || lc.StreamsMax < 0 || lc.MaxDatagram < 0 || lc.MaxDatagram > int(quoit.DatagramMax) {
		return &net.OpError{Op: "listen", Net: network, Addr: named{network, address}, Err: os.ErrInvalid}
	}
	return nil
}

func flag(on bool, value uint32) uint32 {
	if on {
		return value
	}
	return 0
}

// Listen is Net.Listen with these options. ctx bounds the look-up of a name.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if err := lc.check(network, address); err != nil {
		return nil, err
	}
	o := quoit.ListenOptions{
		Flags: flag(lc.ReusePort, quoit.ListenReuseport) | flag(lc.V6Only, quoit.ListenV6Only) |
			flag(lc.FreeBind, quoit.ListenFreebind) | flag(lc.Unlink, quoit.ListenUnlink) | flag(lc.Delay, quoit.ListenDelay),
		Backlog: uint32(lc.Backlog), StreamsMax: uint32(lc.StreamsMax), Socket: lc.list(),
	}
	if lc.DeferAccept != 0 {
		o.Socket = append(o.Socket, quoit.SocketOption{Option: quoit.SocketDeferAccept, Value: int64(lc.DeferAccept)})
	}
	return lc.Net.listen(ctx, network, address, o)
}

// ListenPacket is Net.ListenPacket with these options. ctx bounds the look-up of a name.
func (lc *ListenConfig) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	if err := lc.check(network, address); err != nil {
		return nil, err
	}
	c, err := lc.Net.listenPacket(ctx, network, address, quoit.BindOptions{
		Flags: flag(lc.ReusePort, quoit.BindReuseport) | flag(lc.V6Only, quoit.BindV6Only) | flag(lc.Unlink, quoit.BindUnlink) |
			flag(lc.PacketInfo, quoit.BindPacketInfo) | flag(lc.Broadcast, quoit.BindBroadcast),
		MaxDatagram: uint32(lc.MaxDatagram), Socket: lc.list(),
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dialer dials with options, as net.Dialer does. Net must be set; zero otherwise means the default.
type Dialer struct {
	Net *Net
	SocketOptions
	Timeout   time.Duration // of the whole dial; 0 is none but that of ctx
	LocalAddr net.Addr      // to dial from: of the network's type, nil the kernel's choice
}

// Dial is Net.Dial with these options.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is Net.DialContext with these options.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Source: d.LocalAddr, Addr: named{network, address}, Err: err}
	}
	if d.Net == nil {
		return fail(os.ErrInvalid)
	}
	if d.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		ctx = limited
	}
	o := quoit.DialOptions{Delay: d.Delay, Socket: d.list()}
	if d.LocalAddr != nil {
		local, err := localAddr(network, d.LocalAddr)
		if err != nil {
			return fail(err)
		}
		o.Local = local.String()
	}
	return d.Net.dial(ctx, network, address, o)
}

// localAddr is an address of ours as quoit has it.
func localAddr(network string, from net.Addr) (quoit.Addr, error) {
	switch a := from.(type) {
	case *net.TCPAddr:
		if a == nil || !strings.HasPrefix(network, "tcp") {
			break
		}
		if len(a.IP) == 0 {
			return fromAddrPort("udp", netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(a.Port)))
		}
		return fromAddrPort("udp", a.AddrPort())
	case *net.UnixAddr:
		if a != nil && network == "unix" {
			return quoit.ParseAddr("unix:" + a.Name)
		}
	}
	return quoitAddr(network, from)
}
