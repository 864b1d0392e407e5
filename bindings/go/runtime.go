// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Driver is what a runtime speaks to the kernel with.
type Driver uint32

// Drivers. DriverAuto takes the best that works; all others are that one or an error.
const (
	DriverAuto       Driver = C.QUOIT_DRIVER_AUTO
	DriverURing      Driver = C.QUOIT_DRIVER_URING
	DriverURingDefer Driver = C.QUOIT_DRIVER_URING_DEFER
	DriverURingCoop  Driver = C.QUOIT_DRIVER_URING_COOP
	DriverURingPlain Driver = C.QUOIT_DRIVER_URING_PLAIN
	DriverEpoll      Driver = C.QUOIT_DRIVER_EPOLL
)

var driverNames = [...]string{"auto", "uring", "uring-defer", "uring-coop", "uring-plain", "epoll"}

func (d Driver) String() string {
	if int(d) < len(driverNames) {
		return driverNames[d]
	}
	return fmt.Sprintf("driver %d", uint32(d))
}

// ParseDriver reads a name as the environment's QUOIT_DRIVER has it. "" is DriverAuto.
func ParseDriver(name string) (Driver, error) {
	for i, known := range driverNames {
		if name == known || name == "" {
			return Driver(i), nil
		}
	}
	return DriverAuto, fmt.Errorf("quoit: no driver is named %q; known are %v", name, driverNames)
}

// RuntimeOptions are those of a runtime; zero means the library's default.
type RuntimeOptions struct {
	Driver      Driver // with DriverAuto the environment's QUOIT_DRIVER decides
	PoolThreads uint32 // threads of the blocking pool
	PoolQueue   uint32 // calls that may wait for one
	LogStderr   bool   // write log lines to standard error too
}

// Runtime is a set of workers, one driver and one blocking pool. Its methods may be called by any goroutine.
type Runtime struct {
	mu      sync.Mutex
	c       *C.quoit_runtime // nil once closed
	running int              // workers inside Run
}

// NewRuntime makes a runtime. The driver is chosen here, by trying.
func NewRuntime(o RuntimeOptions) (*Runtime, error) {
	options := C.quoit_runtime_options{
		struct_size:  C.sizeof_quoit_runtime_options,
		driver:       C.uint32_t(o.Driver),
		pool_threads: C.uint32_t(o.PoolThreads),
		pool_queue:   C.uint32_t(o.PoolQueue),
	}
	if o.LogStderr {
		options.flags |= C.QUOIT_RUNTIME_LOG_STDERR
	}
	r := &Runtime{}
	if status := C.quoit_runtime_create(&options, &r.c); status < 0 {
		return nil, statusError("create the runtime with driver "+o.Driver.String(), int64(status))
	}
	return r, nil
}

// Close ends the runtime and the workers that never ran, and waits for offloaded calls. It fails with EBusy while a
// worker is inside Run. Closing twice does nothing.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return nil
	}
	if r.running > 0 {
		return statusError("close the runtime", int64(EBusy))
	}
	if status := C.quoit_runtime_destroy(r.c); status < 0 {
		return statusError("close the runtime", int64(status))
	}
	r.c = nil
	return nil
}

// Driver is the one that was chosen; DriverAuto once the runtime is closed.
func (r *Runtime) Driver() Driver {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return DriverAuto
	}
	if driver := C.quoit_runtime_driver(r.c); driver > 0 {
		return Driver(driver)
	}
	return DriverAuto
}

// DriverReason says in a sentence why that driver was chosen.
func (r *Runtime) DriverReason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text [1024]C.char
	if r.c == nil || C.quoit_runtime_driver_reason(r.c, &text[0], C.uint32_t(len(text))) < 0 {
		return ""
	}
	return C.GoString(&text[0])
}

// Levels of a log line.
const (
	LogError   = C.QUOIT_LOG_ERROR
	LogWarning = C.QUOIT_LOG_WARNING
	LogInfo    = C.QUOIT_LOG_INFO
	LogDebug   = C.QUOIT_LOG_DEBUG
)

// ReadLog takes the oldest line out of the runtime's log; ok is false when there is none.
func (r *Runtime) ReadLog() (level int, line string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return 0, "", false
	}
	var text [1024]C.char
	var l C.uint32_t
	if C.quoit_log_read(r.c, &text[0], C.uint32_t(len(text)), &l) <= 0 {
		return 0, "", false
	}
	return int(l), C.GoString(&text[0]), true
}

// enter counts a worker in, so that Close cannot pull the runtime from under it.
func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return statusError("run the worker", int64(EClosed))
	}
	r.running++
	return nil
}

func (r *Runtime) leave() {
	r.mu.Lock()
	r.running--
	r.mu.Unlock()
}

// WorkerOptions are those of a worker; zero means the library's default.
type WorkerOptions struct {
	EventsMax      uint32 // events per batch
	OpsMax         uint32 // ops per crossing
	ScratchLen     uint32 // bytes that Write can place without a copy inside the library, per tick
	RecvArena      uint64 // address space for received bytes
	SendArena      uint64 // address space for bytes to send
	RecvBuffers    uint32 // receive buffers that wait for data
	RecvBufferSize uint32
	SendLimit      uint64 // copied bytes that one connection may owe
	KeptStreamMax  uint64 // kept or sent-on received bytes, per connection
	KeptMax        uint64 // and in all
	RingEntries    uint32
	CQEntries      uint32
	ObjectsMax     uint32
	MailboxOps     uint32
	MailboxBytes   uint64
	CloseTimeoutNs uint64 // how long Close waits for the peer's end
	Grease         bool   // inject events of unknown kinds, to prove that the program ignores them
}

// NewWorker makes a worker, which Worker.Run then drives.
func (r *Runtime) NewWorker(o WorkerOptions) (*Worker, error) {
	options := C.quoit_worker_options{
		struct_size:      C.sizeof_quoit_worker_options,
		events_max:       C.uint32_t(o.EventsMax),
		ops_max:          C.uint32_t(o.OpsMax),
		scratch_len:      C.uint32_t(o.ScratchLen),
		recv_arena:       C.uint64_t(o.RecvArena),
		send_arena:       C.uint64_t(o.SendArena),
		recv_buffers:     C.uint32_t(o.RecvBuffers),
		recv_buffer_size: C.uint32_t(o.RecvBufferSize),
		send_limit:       C.uint64_t(o.SendLimit),
		kept_stream_max:  C.uint64_t(o.KeptStreamMax),
		kept_max:         C.uint64_t(o.KeptMax),
		ring_entries:     C.uint32_t(o.RingEntries),
		cq_entries:       C.uint32_t(o.CQEntries),
		objects_max:      C.uint32_t(o.ObjectsMax),
		mailbox_ops:      C.uint32_t(o.MailboxOps),
		mailbox_bytes:    C.uint64_t(o.MailboxBytes),
		close_timeout_ns: C.uint64_t(o.CloseTimeoutNs),
	}
	if o.Grease {
		options.flags |= C.QUOIT_WORKER_GREASE
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return nil, statusError("create a worker", int64(EClosed))
	}
	w := &Worker{rt: r, done: make(chan struct{}), sockets: map[*DatagramSocket]struct{}{}}
	if status := C.quoit_worker_create(r.c, &options, &w.c); status < 0 {
		return nil, statusError("create a worker", int64(status))
	}
	w.address = uintptr(unsafe.Pointer(w.c))
	w.handle = Handle(C.quoit_worker_handle(w.c))
	w.raw = (*RawBatch)(unsafe.Pointer(C.quoit_worker_batch(w.c)))
	w.ops = unsafe.Slice((*Op)(C.quoit_go_pointer(C.uint64_t(w.raw.Ops))), w.raw.OpsMax)
	w.events = unsafe.Slice((*Event)(C.quoit_go_pointer(C.uint64_t(w.raw.Events))), w.raw.EventsMax)
	w.recvBase = C.quoit_go_pointer(C.uint64_t(w.raw.RecvBase))
	w.sendBase = C.quoit_go_pointer(C.uint64_t(w.raw.SendBase))
	w.batch.w = w
	w.pollOnce = w.turnInside
	w.tick = w.handleBatch
	return w, nil
}
