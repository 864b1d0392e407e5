// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"fmt"
	"math"
	"syscall"
	"unsafe"
)

const eagain = syscall.EAGAIN

// CType is the type of an argument or result of a native function.
type CType uint32

// Types.
const (
	CVoid    CType = C.QUOIT_TYPE_VOID
	CInt8    CType = C.QUOIT_TYPE_I8
	CUint8   CType = C.QUOIT_TYPE_U8
	CInt16   CType = C.QUOIT_TYPE_I16
	CUint16  CType = C.QUOIT_TYPE_U16
	CInt32   CType = C.QUOIT_TYPE_I32
	CUint32  CType = C.QUOIT_TYPE_U32
	CInt64   CType = C.QUOIT_TYPE_I64
	CUint64  CType = C.QUOIT_TYPE_U64
	CFloat   CType = C.QUOIT_TYPE_FLOAT
	CDouble  CType = C.QUOIT_TYPE_DOUBLE
	CPointer CType = C.QUOIT_TYPE_POINTER
)

// Value is what a native function returned, as bits.
type Value uint64

func (v Value) Int() int64       { return int64(v) }
func (v Value) Uint() uint64     { return uint64(v) }
func (v Value) Float64() float64 { return math.Float64frombits(uint64(v)) }
func (v Value) Float32() float32 { return math.Float32frombits(uint32(v)) }

// Function is a native function: its address.
type Function uint64

// Symbol finds a function in a shared library, "" for the process itself. The library stays loaded. Any goroutine.
func Symbol(library, name string) (Function, error) {
	var path *C.char
	if library != "" {
		path = C.CString(library)
		defer C.free(unsafe.Pointer(path))
	}
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	var address C.uint64_t
	if status := C.quoit_symbol(path, symbol, &address); status < 0 {
		return 0, statusError("find "+name+" in "+library, int64(status))
	}
	return Function(address), nil
}

// Memory is C memory of the program's, for offloaded functions that write, and for PostOps.
type Memory struct {
	bytes []byte
}

// Alloc makes n bytes of C memory, zeroed. Any goroutine.
func Alloc(n int) *Memory {
	if n <= 0 {
		n = 1
	}
	return &Memory{unsafe.Slice((*byte)(C.calloc(1, C.size_t(n))), n)}
}

// Bytes is the memory, nil after Free.
func (m *Memory) Bytes() []byte { return m.bytes }

// Address is the memory's.
func (m *Memory) Address() uint64 { return uint64(uintptr(unsafe.Pointer(&m.bytes[0]))) }

// Free gives the memory back; nothing may use it any more. Freeing twice does nothing.
func (m *Memory) Free() {
	if m.bytes != nil {
		C.free(unsafe.Pointer(&m.bytes[0]))
		m.bytes = nil
	}
}

// Offload calls a native function on the runtime's blocking pool and gives its result to done on the worker; no
// goroutine is held meanwhile. Arguments have the C type of their Go type (int32, float64, ...; int is int64, uint and
// uintptr uint64, bool uint8). []byte and string are passed as pointers to C copies, which live until the function has
// returned (a string ends in a NUL); *Memory as a pointer to it. EAGAIN: too many calls wait.
func (w *Worker) Offload(f Function, result CType, args []any, done func(v Value, err error)) {
	if len(args) > CallArgsMax {
		done(0, statusError("offload", int64(EArgument)))
		return
	}
	var (
		words  [CallArgsMax]uint64
		types  [CallArgsMax]byte
		copies []*Memory
	)
	free := func() {
		for _, m := range copies {
			m.Free()
		}
	}
	for i, arg := range args {
		word, ctype, copied, err := argument(arg)
		if copied != nil {
			copies = append(copies, copied)
		}
		if err != nil {
			free()
			done(0, err)
			return
		}
		words[i], types[i] = word, byte(ctype)
	}
	const size, wordsSize = int(unsafe.Sizeof(rawCall{})), 8 * CallArgsMax
	o := w.op()
	o.Opcode, o.Flags, o.Len = OpOffload, FlagArgs, uint32(size)
	o.UserData = w.calls.add("offload", func(e *Event) {
		free()
		done(Value(e.Value), eventError("offload", e))
	}, nil)
	mem := w.place(o, size+wordsSize+CallArgsMax)
	*(*rawCall)(unsafe.Pointer(&mem[0])) = rawCall{
		StructSize: uint32(size),
		NArgs:      uint32(len(args)),
		Function:   uint64(f),
		Args:       o.Addr + uint64(size),
		Types:      o.Addr + uint64(size+wordsSize),
		ReturnType: uint32(result),
	}
	*(*[CallArgsMax]uint64)(unsafe.Pointer(&mem[size])) = words
	copy(mem[size+wordsSize:], types[:])
}

// argument turns a Go value into the word and the type of a native argument.
func argument(arg any) (word uint64, ctype CType, copied *Memory, err error) {
	switch a := arg.(type) {
	case bool:
		if a {
			return 1, CUint8, nil, nil
		}
		return 0, CUint8, nil, nil
	case int8:
		return uint64(a), CInt8, nil, nil
	case uint8:
		return uint64(a), CUint8, nil, nil
	case int16:
		return uint64(a), CInt16, nil, nil
	case uint16:
		return uint64(a), CUint16, nil, nil
	case int32:
		return uint64(a), CInt32, nil, nil
	case uint32:
		return uint64(a), CUint32, nil, nil
	case int64:
		return uint64(a), CInt64, nil, nil
	case int:
		return uint64(a), CInt64, nil, nil
	case uint64:
		return a, CUint64, nil, nil
	case uint:
		return uint64(a), CUint64, nil, nil
	case uintptr:
		return uint64(a), CUint64, nil, nil
	case float32:
		return uint64(math.Float32bits(a)), CFloat, nil, nil
	case float64:
		return math.Float64bits(a), CDouble, nil, nil
	case nil:
		return 0, CPointer, nil, nil
	case *Memory:
		return a.Address(), CPointer, nil, nil
	case []byte:
		copied = Alloc(len(a))
		copy(copied.bytes, a)
		return copied.Address(), CPointer, copied, nil
	case string:
		copied = Alloc(len(a) + 1)
		copy(copied.bytes, a)
		return copied.Address(), CPointer, copied, nil
	}
	return 0, CVoid, nil, fmt.Errorf("quoit: offload: an argument of type %T has no C type", arg)
}
