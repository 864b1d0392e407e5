// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// mutate makes from a live handle one that must be refused.
func mutate(r *rand.Rand, h Handle) Handle {
	const generation = 1 << 24
	switch r.Intn(8) {
	case 0:
		return h + generation
	case 1:
		return h - generation
	case 2: // another kind
		return h&^(0x7F<<56) | Handle(r.Intn(128))<<56
	case 3: // another worker
		return h&^(0xFF<<48) | Handle(r.Intn(256))<<48
	case 4: // another slot
		return h&^0xFFFFFF | Handle(r.Intn(1<<24))
	case 5: // a reserved value
		return Handle(1 + r.Intn(255))
	case 6:
		return Handle(r.Uint64())
	}
	return h ^ 1<<uint(r.Intn(64))
}

// aim fills an op of the opcode that would work if its target were right.
func aim(b *Batch, opcode uint32, target Handle, userData uint64) {
	o := b.Op()
	o.Opcode, o.Target, o.UserData = opcode, target, userData
	switch opcode {
	case OpSend, OpWrite:
		o.Len = 4
		copy(b.Place(o, 4), "evil")
	case OpShutdown:
		o.Arg = ShutdownSend
	case OpTimer:
		o.Offset = int64(time.Hour)
	case OpOpen:
		o.Len, o.Arg = 4, OpenRead
		copy(b.Place(o, 4), "file")
	case OpRead:
		o.Len = 16
	}
}

// TestHandles gives handles that are almost right to each op and call. QUOIT_HANDLE_TRIES says how many (20,000).
func TestHandles(t *testing.T) {
	tries := 20000
	if s := os.Getenv("QUOIT_HANDLE_TRIES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		tries = n
	}
	opcodes := []uint32{
		OpAccept, OpRecv, OpRecvPause, OpRecvResume, OpSend, OpShutdown, OpClose, OpCancel, OpTimer, OpPost,
		OpOpen, OpRead, OpWrite, OpFsync, OpKeep, OpRelease,
	}
	each(t, func(t *testing.T, rt *Runtime) {
		refusals := map[uint64]Status{} // of the ops in flight, by user_data
		waiting := 0
		h := &batchFunc{f: func(b *Batch) {
			for _, e := range b.Events() {
				if e.UserData < ownBit && e.Kind < KindBadOp {
					if e.Result >= 0 {
						t.Errorf("op %d took the handle %x", e.Kind, uint64(e.Source))
					}
					refusals[e.UserData] = Status(e.Result)
					waiting--
				}
			}
		}}
		w := run(t, rt, WorkerOptions{}, h)
		other := run(t, rt, WorkerOptions{}, &hooks{})
		live := liveHandles(t, w)
		foreign := liveHandles(t, other)
		known := map[Handle]bool{0: true}
		for _, set := range [][]Handle{live, foreign} {
			for _, handle := range set {
				known[handle] = true
			}
		}

		random := rand.New(rand.NewSource(1))
		counts := map[Status]int{}
		for done := 0; done < tries; {
			const chunk = 500
			w.do(func(ready func()) {
				for i := 0; i < chunk; i++ {
					opcode := opcodes[random.Intn(len(opcodes))]
					target := foreign[random.Intn(len(foreign))]
					if opcode == OpPost || random.Intn(4) > 0 {
						target = mutate(random, live[random.Intn(len(live))])
						if known[target] {
							continue
						}
					}
					aim(&w.batch, opcode, target, uint64(i))
					waiting++
					done++
				}
				callWith(t, w.Worker, mutate(random, live[random.Intn(len(live))]), known)
				ready()
			})
			w.eventually("an answer to each op", func() bool { return waiting == 0 })
			for i, status := range refusals {
				counts[status]++
				delete(refusals, i)
			}
		}
		for status, n := range counts {
			switch status {
			case EStale, EKind, EWorker, EHandle:
				t.Logf("%6d × %v", n, status)
			default:
				t.Errorf("%6d × %v: not a clear error for a bad handle", n, status)
			}
		}
		// All is as it was.
		e := &echoHandler{}
		echoClients(t, w.listen("127.0.0.1:0", e), 5, []int{1, 100000})
	})
}

// callWith gives a bad handle to each call that takes one.
func callWith(t *testing.T, w *Worker, bad Handle, known map[Handle]bool) {
	if known[bad] {
		return
	}
	if _, err := (&File{w: w, handle: bad}).Size(); err == nil {
		t.Errorf("the size of handle %x was told", uint64(bad))
	}
	c := &Conn{w: w, handle: bad}
	if c.RemoteAddr() != "" || c.LocalAddr() != "" {
		t.Errorf("an address of handle %x was told", uint64(bad))
	}
	if _, err := PostOps(bad, wakeOp[:]); err == nil {
		t.Errorf("a post to handle %x was taken", uint64(bad))
	}
	(&Worker{handle: bad}).Stop()
	if s := readStats(bad); s.Ticks != 0 {
		t.Errorf("statistics of handle %x were told", uint64(bad))
	}
	bad.Kind()
}

// liveHandles makes one object of each kind and gives all their handles.
func liveHandles(t *testing.T, w *running) []Handle {
	t.Helper()
	handles := []Handle{w.Handle()}
	note := func(h Handle) { handles = append(handles, h) }
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("contents"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := w.open(dir, OpenRead|OpenDirectory, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.open(filepath.Join(dir, "file"), OpenRead|OpenWrite, 0)
	if err != nil {
		t.Fatal(err)
	}
	note(d.Handle())
	note(f.Handle())

	received := make(chan struct{})
	quiet := &hooks{open: func(c *Conn) { note(c.Handle()) }}
	server := &hooks{open: quiet.open, data: func(c *Conn, data []byte) {
		w.Keep(data, func(k *Kept, err error) {
			if err != nil {
				t.Error(err)
			} else {
				note(k.buffer)
			}
			close(received)
		})
	}}
	w.do(func(done func()) {
		w.Listen("127.0.0.1:0", ListenOptions{}, server, func(l *Listener, err error) {
			if err != nil {
				t.Error(err)
				done()
				return
			}
			note(l.Handle())
			w.Dial(l.Addr(), 0, quiet, func(c *Conn, err error) {
				if err != nil {
					t.Error(err)
				} else {
					c.Write([]byte("to be kept"))
				}
				done()
			})
		})
	})
	w.await(received)

	// A timer's handle is told at once with ARMED; it fires in an hour.
	w.do(func(done func()) {
		o := w.op()
		o.Opcode, o.Flags, o.Offset = OpTimer, FlagArmed, int64(time.Hour)
		o.UserData = w.calls.add("timer", func(e *Event) {
			if e.Flags&EventMore != 0 {
				note(Handle(e.Value))
				done()
			}
		}, nil)
	})
	return handles
}

// A connection's handle is stale once it is closed, also when its slot is used again.
func TestStaleHandle(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		events := make(chan Event, 100)
		h := &batchFunc{f: func(b *Batch) {
			for _, e := range b.Events() {
				if e.UserData == 5 {
					events <- e
				}
			}
		}}
		conns := make(chan *Conn, 1)
		closed := make(chan struct{}, 1)
		h.open = func(c *Conn) { conns <- c }
		h.close = func(*Conn, error) { closed <- struct{}{} }
		w := run(t, rt, WorkerOptions{}, h)
		addr := w.listen("127.0.0.1:0", h)
		dial(t, addr).Close()
		old := <-conns
		<-closed
		dial(t, addr)
		fresh := <-conns
		if old.Handle() == fresh.Handle() {
			t.Fatal("two connections have the same handle")
		}
		w.do(func(done func()) {
			aim(&w.batch, OpSend, old.Handle(), 5)
			old.Close() // does nothing any more
			old.Abort()
			old.Pause()
			if w.Conn(old.Handle()) != nil || w.Conn(fresh.Handle()) != fresh {
				t.Error("the table of connections is wrong")
			}
			done()
		})
		if e := <-events; Status(e.Result) != EStale || e.Aux != FieldTarget {
			t.Errorf("sending to a stale handle: %+v", e)
		}
	})
}
