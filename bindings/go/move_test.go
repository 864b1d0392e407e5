// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

const (
	moveAdopt = 1 + iota
	moveRecv
	moveMove
	moveSend
)

// mover echoes on the thin layer, and gives each connection to the other worker after each answer.
type mover struct {
	BaseHandler
	other                Handle
	moved, ended, closed atomic.Int64
	failed               atomic.Pointer[Event]
}

func (m *mover) OnBatch(b *Batch) {
	for _, e := range b.Events() {
		e := e
		switch {
		case e.Kind == OpAdopt && e.Result == 0:
			m.receive(b, Handle(e.Value))
		case e.Kind == KindMoved && e.UserData == uint64(e.Source):
			m.moved.Add(1)
			m.receive(b, Handle(e.Value))
		case e.Kind == OpRecv && e.Len > 0:
			op := b.Op()
			op.Opcode, op.Flags, op.Target, op.UserData = OpSend, FlagArenaRecv|FlagQuiet, e.Source, moveSend
			op.Addr, op.Len, op.Arg2 = e.Offset, e.Len, uint64(e.Buffer)
			op = b.Op()
			op.Opcode, op.Target, op.UserData = OpMove, e.Source, moveMove
			op.Addr, op.Arg2 = uint64(e.Source), uint64(m.other)
		case e.Kind == OpRecv:
			op := b.Op()
			op.Opcode, op.Target, op.UserData = OpClose, e.Source, moveSend
		case e.Kind == OpMove && e.Result == 0 && Handle(e.Value).Kind() == HandleStream:
			m.ended.Add(1)
		case e.Kind == OpClose && e.Result == 0:
			m.closed.Add(1)
		case e.UserData < ownBit:
			m.failed.Store(&e)
		}
	}
}

func (m *mover) receive(b *Batch, stream Handle) {
	op := b.Op()
	op.Opcode, op.Target, op.UserData = OpRecv, stream, moveRecv
}

// A connection goes back and forth with each answer, and nothing of it is lost.
func TestMove(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		handlers := [2]*mover{{}, {}}
		var workers [2]*running
		for i, h := range handlers {
			workers[i] = run(t, rt, WorkerOptions{}, h)
		}
		for i, w := range workers {
			w.do(func(done func()) {
				handlers[i].other = workers[1-i].Handle()
				done()
			})
		}
		ours, client := streamPair(t)
		n, err := PostOps(workers[0].Handle(), []Op{{Opcode: OpAdopt, UserData: moveAdopt, Offset: int64(ours)}})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		const rounds = 100
		for i := 0; i < rounds; i++ {
			if err := roundTrip(client, pattern(100+i, int64(i))); err != nil {
				t.Fatal(i, err)
			}
		}
		client.Close()
		workers[0].eventually("it is closed and every move told", func() bool {
			moved := handlers[0].moved.Load() + handlers[1].moved.Load()
			return handlers[0].closed.Load()+handlers[1].closed.Load() == 1 &&
				moved == handlers[0].ended.Load()+handlers[1].ended.Load() && moved >= rounds
		})
		for i, h := range handlers {
			if e := h.failed.Load(); e != nil {
				t.Errorf("worker %d: %+v", i, *e)
			}
			if h.moved.Load() < rounds/2-1 {
				t.Errorf("worker %d got it %d times", i, h.moved.Load())
			}
		}
	})
}

// streamPair is a descriptor for quoit, and the other end of it.
func streamPair(t *testing.T) (int, net.Conn) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(ends[1]), "client")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return ends[0], conn
}
