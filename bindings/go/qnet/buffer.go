// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import "sync"

// buffer is a queue of bytes. An empty one holds no memory, so an idle connection costs none.
type buffer struct {
	mem  *[]byte // from the pool, nil when empty
	head int     // bytes before it have been taken
}

const (
	pooledMin = 4 << 10
	pooledMax = 256 << 10 // what grew beyond is left to the garbage collector
)

var pool = sync.Pool{New: func() any { b := make([]byte, 0, pooledMin); return &b }}

func (b *buffer) len() int {
	if b.mem == nil {
		return 0
	}
	return len(*b.mem) - b.head
}

// bytes are those queued, valid until the next call.
func (b *buffer) bytes() []byte {
	if b.mem == nil {
		return nil
	}
	return (*b.mem)[b.head:]
}

func (b *buffer) append(p []byte) {
	if len(p) == 0 {
		return
	}
	if b.mem == nil {
		b.mem = pool.Get().(*[]byte)
	}
	// Rather than grow, move what is queued to the front; seldom, so that each byte is moved about once.
	if mem := *b.mem; len(mem)+len(p) > cap(mem) && b.head >= len(mem)/2 {
		*b.mem = mem[:copy(mem[:cap(mem)], mem[b.head:])]
		b.head = 0
	}
	*b.mem = append(*b.mem, p...)
}

// take moves as many bytes as fit into p.
func (b *buffer) take(p []byte) int {
	n := copy(p, b.bytes())
	b.skip(n)
	return n
}

// skip drops as many bytes of the front.
func (b *buffer) skip(n int) {
	b.head += n
	if b.len() == 0 {
		b.reset()
	}
}

func (b *buffer) reset() {
	if b.mem == nil {
		return
	}
	if cap(*b.mem) <= pooledMax {
		*b.mem = (*b.mem)[:0]
		pool.Put(b.mem)
	}
	b.mem, b.head = nil, 0
}
