// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"encoding/binary"
	"testing"
	"time"
	"unsafe"
)

// rawEcho is an echo server on the thin layer alone: ops and events as they are.
type rawEcho struct {
	BaseHandler
	address string
	port    chan int
	unknown int
	closed  int
	lost    []Event
}

const (
	rawListen = 1 + iota
	rawAccept
	rawOther
)

func (r *rawEcho) OnBoot(w *Worker) error {
	addr, err := ParseAddr(r.address)
	if err != nil {
		return err
	}
	b := &w.batch
	op := b.Op()
	op.Opcode, op.UserData, op.Len = OpListen, rawListen, uint32(unsafe.Sizeof(addr))
	mem := b.Place(op, int(op.Len))
	copy(mem, unsafe.Slice((*byte)(unsafe.Pointer(&addr)), op.Len))
	return nil
}

func (r *rawEcho) OnBatch(b *Batch) {
	events := b.Events()
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == OpListen && e.Result >= 0:
			op := b.Op()
			op.Opcode, op.Flags, op.Target = OpAccept, FlagMulti|FlagAutoRecv, Handle(e.Value)
			op.UserData = rawAccept
			r.port <- int(e.Aux)
		case e.Kind == OpRecv:
			r.received(b, e)
		case e.Kind == OpClose:
			r.closed++
		case e.Kind >= KindGrease:
			r.unknown++
		case e.Result < 0:
			r.lost = append(r.lost, *e)
		}
	}
}

func (r *rawEcho) received(b *Batch, e *Event) {
	if len(b.Data(e)) != int(e.Len) {
		panic("lengths differ")
	}
	if e.Len > 0 {
		op := b.Op()
		op.Opcode, op.Flags, op.Target, op.UserData = OpSend, FlagArenaRecv|FlagQuiet, e.Source, rawOther
		op.Addr, op.Len, op.Arg2 = e.Offset, e.Len, uint64(e.Buffer)
	}
	if e.Flags&EventMore == 0 {
		op := b.Op()
		op.Opcode, op.Target, op.UserData = OpClose, e.Source, rawOther
		b.Submit()
	}
}

func TestBatch(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &rawEcho{address: "127.0.0.1:0", port: make(chan int, 1)}
		w := run(t, rt, WorkerOptions{Grease: true, OpsMax: 7, EventsMax: 16}, h)
		var port int
		select {
		case port = <-h.port:
		case <-time.After(patience):
			w.Stop()
			t.Fatalf("not listening; Run: %v, events: %+v", w.wait(), h.lost)
		}
		echoClients(t, addrOf(port), 30, []int{1, 100, 50000})
		w.eventually("30 connections closed", func() bool { return h.closed == 30 })
		if len(h.lost) != 0 {
			t.Errorf("failures: %+v", h.lost)
		}
		w.do(func(done func()) {
			b := &w.batch
			if raw := b.Raw(); raw.StructSize != 128 || raw.Stride != 64 || raw.OpsMax != 7 || raw.EventsMax != 16 ||
				raw.Worker != w.Handle() || raw != w.RawBatch() || b.Worker() != w.Worker {
				t.Errorf("batch %+v", raw)
			}
			if w.Now() == 0 {
				t.Error("no time")
			}
			done()
		})
	})
}

func addrOf(port int) string {
	return Addr{Family: FamilyV4, Port: uint16(port), Len: 4, Bytes: [112]byte{127, 0, 0, 1}}.String()
}

// Ops that a goroutine posts are executed on the worker, and their events appear there.
func TestPostOps(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		got := make(chan Event, 10)
		h := &batchFunc{f: func(b *Batch) {
			for _, e := range b.Events() {
				if e.UserData < ownBit {
					got <- e
				}
			}
		}}
		w := run(t, rt, WorkerOptions{}, h)
		payload := Alloc(8)
		binary.LittleEndian.PutUint64(payload.Bytes(), 42)
		n, err := PostOps(w.Handle(), []Op{
			{Opcode: OpNop, UserData: 1},
			{Opcode: OpSend, UserData: 2, Target: 77, Addr: payload.Address(), Len: 8},
			{Opcode: 0x8123, UserData: 3},
			{Opcode: 999, UserData: 4},
			{Opcode: OpNop, UserData: 5, Flags: FlagArenaSend},
		})
		payload.Free()
		if n != 5 || err != nil {
			t.Fatalf("posted %d: %v", n, err)
		}
		events := map[uint64]Event{}
		for len(events) < 5 {
			e := <-got
			events[e.UserData] = e
		}
		if e := events[1]; e.Kind != OpNop || e.Result != 0 {
			t.Errorf("nop: %+v", e)
		}
		if e := events[2]; e.Kind != OpSend || Status(e.Result) != EHandle || e.Source != 77 {
			t.Errorf("send to no handle: %+v", e)
		}
		if e := events[3]; e.Kind != KindBadOp || e.Aux != 0x8123 {
			t.Errorf("opcode 0x8123: %+v", e)
		}
		if e := events[4]; Status(e.Result) != EOpcode {
			t.Errorf("opcode 999: %+v", e)
		}
		if e := events[5]; e.Result >= 0 {
			t.Errorf("an arena op by post: %+v", e)
		}
		if n, err := PostOps(w.Handle(), nil); n != 0 || err != nil {
			t.Errorf("posting nothing: %d, %v", n, err)
		}
	})
}

type batchFunc struct {
	hooks
	f func(b *Batch)
}

func (h *batchFunc) OnBatch(b *Batch) { h.f(b) }
