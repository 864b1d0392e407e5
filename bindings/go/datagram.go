// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"syscall"
	"unsafe"
)

// rawBindOptions is quoit_bind_options.
type rawBindOptions struct {
	StructSize uint32
	Flags      uint32
	Reserved   uint64
	Peer       Addr
}

// rawPacketInfo is quoit_packet_info.
type rawPacketInfo struct {
	StructSize uint32
	Flags      uint32
	Reserved   uint64
	Source     Addr
}

// BindOptions are those of a datagram socket; zero means the default.
type BindOptions struct {
	Flags uint32 // BindReuseport and so on
	Peer  string // with one the socket is connected: it hears that peer alone, and sends to it
	// MaxDatagram is how many bytes of a datagram are received; what is longer comes truncated. 0 is any datagram whole. What
	// fits into WorkerOptions.RecvBufferSize beside 256 bytes is received without asking the kernel for each.
	MaxDatagram uint32
	// Socket are options to set before anything is received.
	Socket []SocketOption
}

// Datagram is one that was received. Data is lent, and all of it valid, until OnDatagram returns.
type Datagram struct {
	Data    []byte
	Length  int  // of the datagram: more than len(Data) when it was truncated
	From    Addr // who sent it; Len 0 if the sender has no name
	To      Addr // with BindPacketInfo: where it was sent to, Scope the interface that it came by
	Segment int  // with BindGRO: the size of each of the datagrams that Data joins, 0 if it is one
}

// DatagramHandler is told what happens to a datagram socket, on the worker's goroutine.
type DatagramHandler interface {
	// OnDatagram brings one datagram, an empty one too.
	OnDatagram(s *DatagramSocket, d *Datagram)
	// OnError tells an error of receiving. After one that the network reported (ECONNREFUSED: the peer of a connected
	// socket refused an earlier datagram) receiving goes on; after any other it has ended.
	OnError(s *DatagramSocket, err error, goesOn bool)
	// OnClose is the last call: the socket was closed, and what was queued has left or failed, or the worker has stopped.
	OnClose(s *DatagramSocket)
}

// DatagramSocket sends and receives datagrams, over UDP or a Unix socket. Its methods belong on the worker.
type DatagramSocket struct {
	// State is the program's.
	State any

	w       *Worker
	h       DatagramHandler
	handle  Handle
	options BindOptions
	closing bool
	now     Datagram // the one that is told
}

// Bind makes a datagram socket bound to an address (with a peer also "": the kernel's choice), whose datagrams h is told.
// done is told the socket, or the error. A socket that was made must be closed, or lives as long as the worker.
func (w *Worker) Bind(address string, o BindOptions, h DatagramHandler, done func(s *DatagramSocket, err error)) {
	var addr Addr
	var err error
	options := rawBindOptions{StructSize: uint32(unsafe.Sizeof(rawBindOptions{})), Flags: o.Flags}
	if address != "" || o.Peer == "" {
		addr, err = ParseAddr(address)
	}
	if err == nil && o.Peer != "" {
		options.Peer, err = ParseAddr(o.Peer)
	}
	if err != nil {
		done(nil, err)
		return
	}
	op := w.op()
	op.Opcode = OpBind
	op.UserData = w.calls.add("bind "+address, func(e *Event) {
		if err := eventError("bind "+address, e); err != nil {
			done(nil, err)
			return
		}
		w.openSocket(Handle(e.Value), o, h, done)
	}, nil)
	// The options stand behind: at offset 0 they would be none.
	mem := w.place(op, int(unsafe.Sizeof(addr)+unsafe.Sizeof(options)))
	*(*Addr)(unsafe.Pointer(&mem[0])) = addr
	*(*rawBindOptions)(unsafe.Pointer(&mem[unsafe.Sizeof(addr)])) = options
	op.Arg2 = op.Addr + uint64(unsafe.Sizeof(addr))
	if op.Len = uint32(unsafe.Sizeof(addr)); addr.Family == 0 {
		op.Addr, op.Len = 0, 0
	}
}

// openSocket has a new socket receive.
func (w *Worker) openSocket(handle Handle, o BindOptions, h DatagramHandler, done func(s *DatagramSocket, err error)) {
	if o.MaxDatagram == 0 {
		o.MaxDatagram = DatagramMax
	}
	s := &DatagramSocket{w: w, h: h, handle: handle, options: o}
	w.setOptions(s.handle, o.Socket, func(err error) {
		if err != nil {
			w.closeQuietly(s.handle)
			done(nil, err)
			return
		}
		w.sockets[s] = struct{}{}
		s.receive()
		done(s, nil)
	})
}

func (s *DatagramSocket) receive() {
	op := s.w.op()
	op.Opcode, op.Flags, op.Target, op.Len = OpRecvmsg, FlagMulti, s.handle, s.options.MaxDatagram
	op.UserData = s.w.calls.add("receive a datagram", s.received, nil)
}

func (s *DatagramSocket) received(e *Event) {
	if s.closing { // a datagram that comes after Close is one that nobody reads
		return
	}
	err := eventError("receive a datagram", e)
	goesOn := err == nil || passes(err)
	if e.Flags&EventMore == 0 && goesOn {
		s.receive()
	}
	if err != nil {
		s.h.OnError(s, err, goesOn)
		return
	}
	s.now = Datagram{Data: s.w.lent(e), Length: int(e.Result), From: *s.w.addrAt(e.Value), Segment: int(e.Aux)}
	if s.options.Flags&BindPacketInfo != 0 {
		s.now.To = *s.w.addrAt(e.Value + uint64(unsafe.Sizeof(Addr{})))
	}
	s.h.OnDatagram(s, &s.now)
	s.now = Datagram{}
}

func (w *Worker) addrAt(offset uint64) *Addr { return (*Addr)(unsafe.Add(w.recvBase, uintptr(offset))) }

// passes tells an error that the network reported about something sent earlier: the socket is as good as before.
func passes(err error) bool {
	switch err.(*Error).Status.Errno() {
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENONET,
		syscall.ENOPROTOOPT, syscall.EPROTO, syscall.EMSGSIZE:
		return true
	}
	return false
}

// SendOptions say how a datagram leaves; zero means the default.
type SendOptions struct {
	Source  Addr // Family 0: the kernel's choice. Port 0; Scope is the interface to leave by, also without a Family
	Segment int  // UDP: each so many bytes are a datagram of their own
}

// SendTo queues one datagram, which is copied, for a peer (nil if the socket is connected). Datagrams leave in order.
// done, which may be nil, is told once how many bytes left and the error if not all did: also when SendTo is called on
// a closed socket (EClosing).
func (s *DatagramSocket) SendTo(p []byte, to *Addr, done func(n int, err error)) {
	s.SendWith(p, to, SendOptions{}, done)
}

// SendWith is SendTo with options.
func (s *DatagramSocket) SendWith(p []byte, to *Addr, o SendOptions, done func(n int, err error)) {
	err := error(nil)
	switch {
	case s.closing:
		err = statusError("send a datagram", int64(EClosing))
	case uint64(len(p)) > uint64(DatagramMax) || o.Segment < 0 || o.Segment > 0xFFFF:
		err = statusError("send a datagram", -int64(syscall.EMSGSIZE))
	}
	if err != nil {
		if done != nil {
			done(0, err)
		}
		return
	}
	op := s.w.op()
	op.Opcode, op.Target, op.Len, op.Arg = OpSendmsg, s.handle, uint32(len(p)), uint32(o.Segment)
	if done != nil {
		op.UserData = s.w.calls.add("send a datagram", nil, done)
	} else {
		op.Flags, op.UserData = FlagQuiet, ownData(tagNone)
	}
	// Addresses stand behind the payload, and never at offset 0, where they would be none.
	const size = int(unsafe.Sizeof(Addr{}))
	head := (len(p) + 16) &^ 15
	mem := s.w.place(op, head+size+int(unsafe.Sizeof(rawPacketInfo{})))
	copy(mem, p)
	if to != nil {
		*(*Addr)(unsafe.Pointer(&mem[head])) = *to
		op.Arg2 = op.Addr + uint64(head)
	}
	if o.Source != (Addr{}) {
		*(*rawPacketInfo)(unsafe.Pointer(&mem[head+size])) = rawPacketInfo{
			StructSize: uint32(unsafe.Sizeof(rawPacketInfo{})), Source: o.Source}
		op.Offset = int64(op.Addr) + int64(head+size)
	}
}

// Join makes the socket hear what is sent to a multicast group, given as an Addr without a port, its Scope the interface, 0
// the kernel's choice. done may be nil. EADDRINUSE: it is a member already.
func (s *DatagramSocket) Join(group Addr, done func(err error)) {
	s.multicast(MulticastJoin, group, done)
}

// Leave undoes Join. EADDRNOTAVAIL: it is no member.
func (s *DatagramSocket) Leave(group Addr, done func(err error)) {
	s.multicast(MulticastLeave, group, done)
}

func (s *DatagramSocket) multicast(what uint32, group Addr, done func(err error)) {
	op := s.w.op()
	op.Opcode, op.Target, op.Arg, op.Len = OpMulticast, s.handle, what, uint32(unsafe.Sizeof(group))
	op.UserData = s.w.calls.add("join or leave "+group.String(), nil, func(_ int, err error) {
		if done != nil {
			done(err)
		}
	})
	*(*Addr)(unsafe.Pointer(&s.w.place(op, int(unsafe.Sizeof(group)))[0])) = group
}

// Pause stops OnDatagram until Resume: the kernel keeps what it has room for. What this tick has received still comes.
func (s *DatagramSocket) Pause() { s.simple(OpRecvPause) }

// Resume undoes Pause.
func (s *DatagramSocket) Resume() { s.simple(OpRecvResume) }

func (s *DatagramSocket) simple(opcode uint32) {
	if !s.closing {
		op := s.w.op()
		op.Opcode, op.Flags, op.Target, op.UserData = opcode, FlagQuiet, s.handle, ownData(tagNone)
	}
}

// Handle is the socket's, for ops of the program's own.
func (s *DatagramSocket) Handle() Handle { return s.handle }

// Worker is the one that the socket belongs to. Any goroutine.
func (s *DatagramSocket) Worker() *Worker { return s.w }

// Local is the address that was bound, the zero Addr once closed.
func (s *DatagramSocket) Local() Addr { return s.w.localAddr(s.handle) }

// Remote is the address of the peer, the zero Addr if there is none.
func (s *DatagramSocket) Remote() Addr { return s.w.remoteAddr(s.handle) }

// Close sends what is queued, then ends the socket. OnClose follows, and before it nothing but the ends of sends.
// Closing twice does nothing.
func (s *DatagramSocket) Close() {
	if s.closing {
		return
	}
	s.closing = true
	op := s.w.op()
	op.Opcode, op.Target = OpClose, s.handle
	op.UserData = s.w.calls.add("close a datagram socket", func(e *Event) {
		if e.Result >= 0 || Status(e.Result) == EStale {
			s.ended()
		} // else the worker stops, and tells it later
	}, nil)
}

func (s *DatagramSocket) ended() {
	s.closing = true
	delete(s.w.sockets, s)
	s.h.OnClose(s)
}

// closeSockets tells the end of all that are left when the worker has stopped.
func (w *Worker) closeSockets() {
	if w.muted {
		return
	}
	for s := range w.sockets {
		s.ended()
	}
}
