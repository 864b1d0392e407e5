// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import "quoit"

// What a PacketConn does on its worker.

// work gives the worker what the program did since the last tick.
func (c *PacketConn) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = false
	if c.over {
		return
	}
	for c.out.count() > 0 {
		p, data := c.out.front()
		to := &p.to
		if c.remote != nil {
			to = nil
		}
		size := len(data) + packetOverhead
		c.flying, c.owed = append(c.flying, size), c.owed+size
		c.s.SendWith(data, to, quoit.SendOptions{Source: p.from}, c.sentFn)
		c.out.pop()
	}
	if c.closed {
		c.s.Close()
	} else if c.paused && c.in.size() <= c.limits.readLow {
		c.paused = false
		c.s.Resume()
	}
}

// sent hears of the oldest send that it has ended: sends end in the order in which they were asked for.
func (c *PacketConn) sent(_ int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed -= c.flying[0]
	if c.flying = c.flying[:copy(c.flying, c.flying[1:])]; err != nil && c.sendError == nil {
		c.sendError = cause(err)
	}
	c.stir(false, c.writers > 0 && (err != nil || c.owed+c.out.size() <= c.limits.writeLow))
}

// OnDatagram queues what came; a full queue stops receiving.
func (c *PacketConn) OnDatagram(s *quoit.DatagramSocket, d *quoit.Datagram) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.in.push(d.Data, packet{length: d.Length, from: d.From, to: d.To})
	if !c.paused && c.in.size() >= c.limits.read {
		c.paused = true
		s.Pause()
	}
	c.stir(c.readers > 0, false)
}

// OnError tells the next read of what the network reported, and all reads of what ends receiving.
func (c *PacketConn) OnError(_ *quoit.DatagramSocket, err error, goesOn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if goesOn {
		c.passing = err
	} else {
		c.readError = cause(err)
	}
	c.stir(true, false)
}

// OnClose is the last call of the worker.
func (c *PacketConn) OnClose(*quoit.DatagramSocket) {
	c.ended(errEnded)
	delete(c.l.packetConns, c)
	c.l.checkIdle()
}

// ended tells that the socket has gone.
func (c *PacketConn) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if !c.closed {
		c.unlink()
	}
	c.out.reset()
	if c.readError == nil {
		c.readError = err
	}
	c.wakeAll()
}
