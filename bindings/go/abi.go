// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #cgo pkg-config: quoit
// #include "bridge.h"
import "C"

// Op is quoit_op: one operation, 64 bytes. The C header quoit/op.h says what each opcode reads.
type Op struct {
	Opcode    uint32
	Flags     uint32
	Target    Handle
	UserData  uint64
	Addr      uint64
	Len       uint32
	Arg       uint32
	Offset    int64
	Arg2      uint64
	TimeoutNs uint64
}

// Event is quoit_event: one thing that happened, 64 bytes.
type Event struct {
	Kind     uint32
	Flags    uint32
	Source   Handle
	UserData uint64
	Result   int64
	Offset   uint64
	Len      uint32
	Aux      uint32
	Buffer   Handle
	Value    uint64
}

// RawBatch is quoit_batch, 128 bytes. It lives in C memory for the worker's life; Worker.RawBatch points at it.
type RawBatch struct {
	StructSize uint32
	Flags      uint32
	Ops        uint64
	Events     uint64
	NOps       uint32
	OpsMax     uint32
	NEvents    uint32
	EventsMax  uint32
	Stride     uint32
	ScratchLen uint32
	ScratchOff uint64
	NowNs      uint64
	Tick       uint64
	NextNs     int64
	RecvBase   uint64
	RecvSize   uint64
	SendBase   uint64
	SendSize   uint64
	Worker     Handle
	Reserved   uint64
}

// Addr is quoit_addr: a socket address, 128 bytes. ParseAddr makes one, String shows it.
type Addr struct {
	Family   uint16
	Port     uint16
	Scope    uint32
	Flowinfo uint32
	Len      uint32
	Bytes    [112]byte
}

// IOVec is quoit_iov: one slice of a vectored op, 16 bytes.
type IOVec struct {
	Addr  uint64
	Len   uint32
	Flags uint32
}

// rawCall is quoit_call, the description of an offloaded native call.
type rawCall struct {
	StructSize uint32
	NArgs      uint32
	Function   uint64
	Types      uint64
	Args       uint64
	ReturnType uint32
	Flags      uint32
}

// rawListenOptions is quoit_listen_options.
type rawListenOptions struct {
	StructSize uint32
	Flags      uint32
	StreamsMax uint32
	Skew       uint32
	Reserved   uint64
}

// Handle is a generational handle to an object of a worker. 0 is none. Compare whole handles.
type Handle uint64

// Slot is a small number, unique among the live objects of the handle's worker.
func (h Handle) Slot() uint32 { return uint32(h & 0xFFFFFF) }

// Kind is HandleStream and so on as written in the handle, or 0 if the value was never a handle.
func (h Handle) Kind() uint32 {
	if kind := C.quoit_handle_kind(C.quoit_handle(h)); kind > 0 {
		return uint32(kind)
	}
	return 0
}

// Version is the loaded library's, as text.
func Version() string { return C.GoString(C.quoit_version_text()) }

// VersionNum is the loaded library's, 0xMMmmpp.
func VersionNum() uint32 { return uint32(C.quoit_version()) }

// Supported tells whether the loaded library takes an opcode.
func Supported(opcode uint32) bool { return C.quoit_op_supported(C.uint32_t(opcode)) == 1 }

// HasFeature tells whether the loaded library was built with FeatureURing and so on.
func HasFeature(feature uint32) bool { return C.quoit_feature(C.uint32_t(feature)) == 1 }
