// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// ConnHandler is told what happens to connections, on the worker's goroutine.
type ConnHandler interface {
	// OnOpen comes before anything else of the connection.
	OnOpen(c *Conn)
	// OnData brings bytes in order, in pieces of any size. They are lent: valid until OnData returns.
	OnData(c *Conn, data []byte)
	// OnClose is the last call for the connection. err is nil if it ended in order (the peer's end or our Close).
	OnClose(c *Conn, err error)
}

// Handler is what Worker.Run drives. Embed BaseHandler to write only the methods that matter.
type Handler interface {
	ConnHandler
	// OnBoot is called once, on the worker, before the first tick: listen and dial here. An error ends Run.
	OnBoot(w *Worker) error
	// OnTick is called after the events of each tick. What it asks for still leaves with this tick's crossing.
	OnTick()
}

// BatchHandler is implemented by a Handler that wants each tick's events as they are, before they are handed out
// one by one. Events of ops that the program wrote itself (Batch.Op) are only seen here.
type BatchHandler interface {
	OnBatch(b *Batch)
}

// EOFHandler is implemented by a ConnHandler that goes on sending after the peer has ended its side. OnEOF must see
// to it that the connection is closed some time. Without it the package closes: what was written still leaves.
type EOFHandler interface {
	OnEOF(c *Conn)
}

// MessageHandler is implemented by a Handler that receives messages of other workers (SendMessage).
type MessageHandler interface {
	OnMessage(m Message)
}

// Drain tells how far the end of a worker is that was asked for by Worker.Drain.
type Drain struct {
	Streams int   // accepted connections that are open
	Over    bool  // the worker stops now: Streams are cut off
	Err     error // with Over: why some are cut off, ETIMEDOUT if the grace is over
}

// DrainHandler is implemented by a Handler that wants to know of a drain: when it begins, to close what is idle, and
// when it is over.
type DrainHandler interface {
	OnDrain(d Drain)
}

// BaseHandler has every method of Handler, doing nothing.
type BaseHandler struct{}

func (BaseHandler) OnBoot(*Worker) error { return nil }
func (BaseHandler) OnOpen(*Conn)         {}
func (BaseHandler) OnData(*Conn, []byte) {}
func (BaseHandler) OnClose(*Conn, error) {}
func (BaseHandler) OnTick()              {}
