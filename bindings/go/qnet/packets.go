// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import "quoit"

// packets is a queue of datagrams. An empty one holds no bytes' memory.
type packets struct {
	bytes buffer
	list  []packet
	head  int // those before it have been taken
}

// packet is one of the queue; its bytes are the next `held` of the queue's.
type packet struct {
	held, length int // length is the datagram's: more than held when it was truncated
	from, to     quoit.Addr
}

// packetOverhead is what a queued packet counts beside its bytes: without it empty ones would be free and unbounded.
const packetOverhead = 288

func (q *packets) count() int { return len(q.list) - q.head }

// size is what the queue counts against its bound.
func (q *packets) size() int { return q.bytes.len() + q.count()*packetOverhead }

func (q *packets) push(data []byte, p packet) {
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 { // seldom, so that each is moved about once
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	p.held = len(data)
	q.bytes.append(data)
	q.list = append(q.list, p)
}

// front is the oldest packet with its bytes, valid until the next call. There must be one.
func (q *packets) front() (*packet, []byte) {
	p := &q.list[q.head]
	return p, q.bytes.bytes()[:p.held]
}

// pop takes the oldest packet away.
func (q *packets) pop() {
	q.bytes.skip(q.list[q.head].held)
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
}

func (q *packets) reset() {
	q.bytes.reset()
	q.list, q.head = nil, 0
}
