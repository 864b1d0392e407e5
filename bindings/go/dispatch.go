// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// user_data of the package's own ops: bit 63, 7 bits of tag, 24 bits of generation, 32 bits of index. Programs that
// write ops of their own use values below 1<<63. Grease has all bits set and therefore no tag of ours.
const (
	ownBit   uint64 = 1 << 63
	tagShift        = 56
	tagMask  uint64 = 0x7F

	tagNone uint64 = 1 // nobody waits for the answer
	tagConn uint64 = 2 // an op of a connection, found by the event's source
	tagCall uint64 = 3 // an entry of the call table
)

func ownData(tag uint64) uint64 { return ownBit | tag<<tagShift }

// dispatch hands one event to whom it concerns. Events of unknown kinds and of the program's own ops pass by.
func (w *Worker) dispatch(e *Event) {
	if e.Kind == KindMessage {
		if w.onMessage != nil {
			w.onMessage.OnMessage(Message{Word1: e.Value, Word2: e.Result, Arg: e.Aux, UserData: e.UserData})
		}
		return
	}
	if e.Kind == KindDrain {
		if h, ok := w.handler.(DrainHandler); ok {
			h.OnDrain(Drain{Streams: int(e.Value), Over: e.Flags&EventMore == 0, Err: statusError("drain", e.Result)})
		}
		return
	}
	if e.Kind >= KindBadOp || e.UserData&ownBit == 0 {
		return
	}
	// The receive that an accept arms carries the accept's user_data: its stream is found by source.
	if e.Kind == OpRecv {
		w.connEvent(e)
		return
	}
	switch e.UserData >> tagShift & tagMask {
	case tagConn:
		w.connEvent(e)
	case tagCall:
		w.calls.event(e)
	}
}

// call waits for the events of one op.
type call struct {
	onEvent func(e *Event)         // each event, if set
	done    func(n int, err error) // else: the last event as a count and an error
	name    string                 // of the op, for its error
	gen     uint32
	next    int32 // in the free list
}

// callTable is a slab of calls. An entry is free again after its op's last event.
type callTable struct {
	entries []call
	free    int32 // index + 1 of the first free entry
}

// add gives the user_data under which the op's events find the call.
func (t *callTable) add(name string, onEvent func(*Event), done func(int, error)) uint64 {
	index := t.free - 1
	if index >= 0 {
		t.free = t.entries[index].next
	} else {
		index = int32(len(t.entries))
		t.entries = append(t.entries, call{})
	}
	c := &t.entries[index]
	c.onEvent, c.done, c.name = onEvent, done, name
	return ownData(tagCall) | uint64(c.gen&0xFFFFFF)<<32 | uint64(index)
}

// find gives the live call of a user_data, or nil.
func (t *callTable) find(userData uint64) *call {
	index := uint32(userData)
	if index >= uint32(len(t.entries)) {
		return nil
	}
	c := &t.entries[index]
	if c.name == "" || c.gen&0xFFFFFF != uint32(userData>>32)&0xFFFFFF {
		return nil
	}
	return c
}

// forget makes the call's remaining events pass unheard; its entry is freed by the last one.
func (t *callTable) forget(userData uint64) {
	if c := t.find(userData); c != nil {
		c.onEvent, c.done = nil, nil
	}
}

func (t *callTable) event(e *Event) {
	c := t.find(e.UserData)
	if c == nil {
		return
	}
	onEvent, done, name := c.onEvent, c.done, c.name
	if e.Flags&EventMore == 0 {
		*c = call{gen: c.gen + 1, next: t.free}
		t.free = int32(uint32(e.UserData)) + 1
	}
	switch {
	case onEvent != nil:
		onEvent(e)
	case done != nil && e.Result < 0:
		done(int(e.Value), eventError(name, e))
	case done != nil:
		done(int(e.Result), nil)
	}
}
