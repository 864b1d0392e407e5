// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"net"
	"os"
	"syscall"

	"quoit"
)

// PacketConn is a datagram socket, over UDP or a Unix socket: a net.PacketConn, and a net.Conn too, whose Read and Write
// are those of the peer if it was dialled. Any goroutines may use it at once. Datagrams that came wait in it until they are
// read: a deadline or Close of one who waits loses none. What nobody reads is bounded by Options.ReadBuffer; then the
// kernel's own buffer fills, and UDP drops what comes.
type PacketConn struct {
	endpoint      // its remote is nil unless dialled
	v6       bool // of an IPv6 socket
	keeps    bool // adopted: the path stays

	// Of the worker's goroutine.
	s      *quoit.DatagramSocket
	sentFn func(n int, err error) // sent, made once

	// Under the endpoint's lock.
	in, out   packets
	flying    []int // sizes of those with the worker that have not left, the oldest first
	owed      int   // their sum
	paused    bool
	over      bool
	readError error // ends reading
	passing   error // told once, by the next read that has nothing else
	sendError error // told once, by the next write
}

// Packet is what ReadPacket tells and WritePacket takes beside the bytes.
type Packet struct {
	// Length is that of a datagram read: more than n when it did not fit, and the rest is lost.
	Length int
	// From is the sender: *net.UDPAddr or *net.UnixAddr, nil if it has no name. To send, our address to leave from (its port
	// is not looked at), nil for the kernel's choice.
	From net.Addr
	// To is where the datagram was sent to, nil without ListenConfig.PacketInfo. To send, the peer, nil if dialled.
	To net.Addr
	// Interface is the index of the interface that it came by, 0 without ListenConfig.PacketInfo, or is to leave by, 0 any.
	Interface int
}

func (c *PacketConn) receive(p []byte) (n int, got packet, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, got, c.opError("read", net.ErrClosed)
		case c.readBy.past:
			return 0, got, c.opError("read", os.ErrDeadlineExceeded)
		case c.in.count() > 0:
			first, data := c.in.front()
			n, got = copy(p, data), *first
			c.in.pop()
			if c.paused && c.in.size() <= c.limits.readLow {
				c.post()
			}
			return n, got, nil
		case c.passing != nil:
			err, c.passing = c.passing, nil
			return 0, got, c.opError("read", err)
		case c.readError != nil:
			return 0, got, c.opError("read", c.readError)
		}
		c.waitToRead()
	}
}

// ReadFrom takes a datagram, also one without bytes, and waits for one if there is none. Of one longer than p the rest is
// lost: ReadPacket tells. The address is a *net.UDPAddr, or a *net.UnixAddr, nil if the sender has no name. A socket
// that was dialled tells ECONNREFUSED when the peer refused what was sent, and goes on.
func (c *PacketConn) ReadFrom(p []byte) (int, net.Addr, error) {
	n, got, err := c.receive(p)
	if err != nil {
		return 0, nil, err
	}
	return n, c.peer(got.from), nil
}

// Read is ReadFrom without the address. It never tells io.EOF: datagrams have no end.
func (c *PacketConn) Read(p []byte) (int, error) {
	n, _, err := c.receive(p)
	return n, err
}

// ReadPacket is ReadFrom that tells all about the datagram.
func (c *PacketConn) ReadPacket(p []byte) (n int, info Packet, err error) {
	n, got, err := c.receive(p)
	if err != nil {
		return 0, Packet{}, err
	}
	info = Packet{Length: got.length, From: c.peer(got.from)}
	if got.to.Len != 0 {
		info.To, info.Interface = netAddr(c.network, got.to), int(got.to.Scope)
	}
	return n, info, nil
}

// peer is an address as ReadFrom tells it, without a type where it has none.
func (c *PacketConn) peer(a quoit.Addr) net.Addr {
	if a.Len == 0 {
		return nil
	}
	return netAddr(c.network, a)
}

// WriteTo hands a datagram over to be sent, and waits while the socket owes more than Options.WriteBuffer; one whose wait
// ends by a deadline or Close is not sent. An error of sending is told by the next write.
func (c *PacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.remote != nil {
		return 0, c.opErrorTo("write", to, net.ErrWriteToConnected)
	}
	return c.WritePacket(p, Packet{To: to})
}

// Write sends a datagram to the peer of a dialled socket, as WriteTo does. EDESTADDRREQ: it was not dialled.
func (c *PacketConn) Write(p []byte) (int, error) {
	if c.remote == nil {
		return 0, c.opErrorTo("write", nil, syscall.EDESTADDRREQ)
	}
	return c.send(p, packet{}, c.remote)
}

// WritePacket is WriteTo that also says where the datagram leaves from: Packet{To: got.From, From: got.To} answers one that
// ReadPacket told, from the address that it was sent to.
func (c *PacketConn) WritePacket(p []byte, info Packet) (int, error) {
	var out packet
	var err error
	switch {
	case c.remote == nil:
		out.to, err = quoitAddr(c.network, info.To)
	case info.To == nil:
		info.To = c.remote
	default:
		err = net.ErrWriteToConnected
	}
	if err == nil && (info.From != nil || info.Interface != 0) {
		out.from, err = c.source(info.From, info.Interface)
	}
	if err != nil {
		return 0, c.opErrorTo("write", info.To, err)
	}
	return c.send(p, out, info.To)
}

// udpMax is the most that a UDP datagram carries.
const udpMax = 65507

func (c *PacketConn) send(p []byte, out packet, to net.Addr) (int, error) {
	if c.network != "unixgram" && len(p) > udpMax || len(p) > int(quoit.DatagramMax) {
		return 0, c.opErrorTo("write", to, syscall.EMSGSIZE)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch owed := c.owed + c.out.size(); {
		case c.closed:
			return 0, c.opErrorTo("write", to, net.ErrClosed)
		case c.writeBy.past:
			return 0, c.opErrorTo("write", to, os.ErrDeadlineExceeded)
		case c.over:
			return 0, c.opErrorTo("write", to, c.readError)
		case c.sendError != nil:
			err := c.sendError
			c.sendError = nil
			return 0, c.opErrorTo("write", to, err)
		case owed == 0 || owed+len(p)+packetOverhead <= c.limits.write:
			c.out.push(p, out)
			c.post()
			return len(p), nil
		}
		c.waitToWrite()
	}
}

// Close sends what was written, then ends the socket; it does not wait for that. Reads and writes that wait, and all later
// ones, end with net.ErrClosed.
func (c *PacketConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.close(); err != nil {
		return err
	}
	c.in.reset()
	if !c.over {
		c.unlink()
		c.post()
	}
	return nil
}

// unlink removes the file of a Unix socket that this package made.
func (c *PacketConn) unlink() {
	if path, ok := c.local.(*net.UnixAddr); ok && !c.keeps && path.Name != "" && path.Name[0] != '@' {
		os.Remove(path.Name)
	}
}

func (c *PacketConn) post() { c.postFor(c) }
