// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import "unsafe"

// The structs of abi.go against the C headers, checked by the compiler: a constant index other than 0 into an array
// of one element does not compile.
var _ = [...]struct{}{
	0: [1]struct{}{}[unsafe.Sizeof(Op{})-C.sizeof_quoit_op],
	1: [1]struct{}{}[unsafe.Sizeof(Event{})-C.sizeof_quoit_event],
	2: [1]struct{}{}[unsafe.Sizeof(RawBatch{})-C.sizeof_quoit_batch],
	3: [1]struct{}{}[unsafe.Sizeof(Addr{})-C.sizeof_quoit_addr],
	4: [1]struct{}{}[unsafe.Sizeof(IOVec{})-C.sizeof_quoit_iov],
	5: [1]struct{}{}[unsafe.Sizeof(rawCall{})-C.sizeof_quoit_call],
	6: [1]struct{}{}[unsafe.Sizeof(rawListenOptions{})-C.sizeof_quoit_listen_options],
	7: [1]struct{}{}[unsafe.Sizeof(Stats{})-C.sizeof_quoit_stats],
	8: [1]struct{}{}[unsafe.Sizeof(rawBindOptions{})-C.sizeof_quoit_bind_options],
	9: [1]struct{}{}[unsafe.Sizeof(rawPacketInfo{})-C.sizeof_quoit_packet_info],
}

// fieldLayout is one field: its name in C, its offset in Go and in C.
type fieldLayout struct {
	name  string
	inGo  uintptr
	inC   uintptr
	bytes uintptr
}

// structLayout is one struct, for the tests and their comparison with layout.json.
type structLayout struct {
	size, inC uintptr
	fields    []fieldLayout
}

// layouts lists the structs that Go and C share, as each compiler laid them out.
func layouts() map[string]structLayout {
	var (
		op     Op
		cop    C.quoit_op
		ev     Event
		cev    C.quoit_event
		batch  RawBatch
		cbatch C.quoit_batch
		addr   Addr
		caddr  C.quoit_addr
		iov    IOVec
		ciov   C.quoit_iov
		call   rawCall
		ccall  C.quoit_call
	)
	return map[string]structLayout{
		"quoit_op": {unsafe.Sizeof(op), C.sizeof_quoit_op, []fieldLayout{
			{"opcode", unsafe.Offsetof(op.Opcode), unsafe.Offsetof(cop.opcode), 4},
			{"flags", unsafe.Offsetof(op.Flags), unsafe.Offsetof(cop.flags), 4},
			{"target", unsafe.Offsetof(op.Target), unsafe.Offsetof(cop.target), 8},
			{"user_data", unsafe.Offsetof(op.UserData), unsafe.Offsetof(cop.user_data), 8},
			{"addr", unsafe.Offsetof(op.Addr), unsafe.Offsetof(cop.addr), 8},
			{"len", unsafe.Offsetof(op.Len), unsafe.Offsetof(cop.len), 4},
			{"arg", unsafe.Offsetof(op.Arg), unsafe.Offsetof(cop.arg), 4},
			{"offset", unsafe.Offsetof(op.Offset), unsafe.Offsetof(cop.offset), 8},
			{"arg2", unsafe.Offsetof(op.Arg2), unsafe.Offsetof(cop.arg2), 8},
			{"timeout_ns", unsafe.Offsetof(op.TimeoutNs), unsafe.Offsetof(cop.timeout_ns), 8},
		}},
		"quoit_event": {unsafe.Sizeof(ev), C.sizeof_quoit_event, []fieldLayout{
			{"kind", unsafe.Offsetof(ev.Kind), unsafe.Offsetof(cev.kind), 4},
			{"flags", unsafe.Offsetof(ev.Flags), unsafe.Offsetof(cev.flags), 4},
			{"source", unsafe.Offsetof(ev.Source), unsafe.Offsetof(cev.source), 8},
			{"user_data", unsafe.Offsetof(ev.UserData), unsafe.Offsetof(cev.user_data), 8},
			{"result", unsafe.Offsetof(ev.Result), unsafe.Offsetof(cev.result), 8},
			{"offset", unsafe.Offsetof(ev.Offset), unsafe.Offsetof(cev.offset), 8},
			{"len", unsafe.Offsetof(ev.Len), unsafe.Offsetof(cev.len), 4},
			{"aux", unsafe.Offsetof(ev.Aux), unsafe.Offsetof(cev.aux), 4},
			{"buffer", unsafe.Offsetof(ev.Buffer), unsafe.Offsetof(cev.buffer), 8},
			{"value", unsafe.Offsetof(ev.Value), unsafe.Offsetof(cev.value), 8},
		}},
		"quoit_batch": {unsafe.Sizeof(batch), C.sizeof_quoit_batch, []fieldLayout{
			{"struct_size", unsafe.Offsetof(batch.StructSize), unsafe.Offsetof(cbatch.struct_size), 4},
			{"flags", unsafe.Offsetof(batch.Flags), unsafe.Offsetof(cbatch.flags), 4},
			{"ops", unsafe.Offsetof(batch.Ops), unsafe.Offsetof(cbatch.ops), 8},
			{"events", unsafe.Offsetof(batch.Events), unsafe.Offsetof(cbatch.events), 8},
			{"nops", unsafe.Offsetof(batch.NOps), unsafe.Offsetof(cbatch.nops), 4},
			{"ops_max", unsafe.Offsetof(batch.OpsMax), unsafe.Offsetof(cbatch.ops_max), 4},
			{"nevents", unsafe.Offsetof(batch.NEvents), unsafe.Offsetof(cbatch.nevents), 4},
			{"events_max", unsafe.Offsetof(batch.EventsMax), unsafe.Offsetof(cbatch.events_max), 4},
			{"stride", unsafe.Offsetof(batch.Stride), unsafe.Offsetof(cbatch.stride), 4},
			{"scratch_len", unsafe.Offsetof(batch.ScratchLen), unsafe.Offsetof(cbatch.scratch_len), 4},
			{"scratch_off", unsafe.Offsetof(batch.ScratchOff), unsafe.Offsetof(cbatch.scratch_off), 8},
			{"now_ns", unsafe.Offsetof(batch.NowNs), unsafe.Offsetof(cbatch.now_ns), 8},
			{"tick", unsafe.Offsetof(batch.Tick), unsafe.Offsetof(cbatch.tick), 8},
			{"next_ns", unsafe.Offsetof(batch.NextNs), unsafe.Offsetof(cbatch.next_ns), 8},
			{"recv_base", unsafe.Offsetof(batch.RecvBase), unsafe.Offsetof(cbatch.recv_base), 8},
			{"recv_size", unsafe.Offsetof(batch.RecvSize), unsafe.Offsetof(cbatch.recv_size), 8},
			{"send_base", unsafe.Offsetof(batch.SendBase), unsafe.Offsetof(cbatch.send_base), 8},
			{"send_size", unsafe.Offsetof(batch.SendSize), unsafe.Offsetof(cbatch.send_size), 8},
			{"worker", unsafe.Offsetof(batch.Worker), unsafe.Offsetof(cbatch.worker), 8},
			{"reserved", unsafe.Offsetof(batch.Reserved), unsafe.Offsetof(cbatch.reserved), 8},
		}},
		"quoit_addr": {unsafe.Sizeof(addr), C.sizeof_quoit_addr, []fieldLayout{
			{"family", unsafe.Offsetof(addr.Family), unsafe.Offsetof(caddr.family), 2},
			{"port", unsafe.Offsetof(addr.Port), unsafe.Offsetof(caddr.port), 2},
			{"scope", unsafe.Offsetof(addr.Scope), unsafe.Offsetof(caddr.scope), 4},
			{"flowinfo", unsafe.Offsetof(addr.Flowinfo), unsafe.Offsetof(caddr.flowinfo), 4},
			{"len", unsafe.Offsetof(addr.Len), unsafe.Offsetof(caddr.len), 4},
			{"bytes", unsafe.Offsetof(addr.Bytes), unsafe.Offsetof(caddr.bytes), 112},
		}},
		"quoit_iov": {unsafe.Sizeof(iov), C.sizeof_quoit_iov, []fieldLayout{
			{"addr", unsafe.Offsetof(iov.Addr), unsafe.Offsetof(ciov.addr), 8},
			{"len", unsafe.Offsetof(iov.Len), unsafe.Offsetof(ciov.len), 4},
			{"flags", unsafe.Offsetof(iov.Flags), unsafe.Offsetof(ciov.flags), 4},
		}},
		"quoit_call": {unsafe.Sizeof(call), C.sizeof_quoit_call, []fieldLayout{
			{"struct_size", unsafe.Offsetof(call.StructSize), unsafe.Offsetof(ccall.struct_size), 4},
			{"nargs", unsafe.Offsetof(call.NArgs), unsafe.Offsetof(ccall.nargs), 4},
			{"entry", unsafe.Offsetof(call.Function), unsafe.Offsetof(ccall.entry), 8},
			{"types", unsafe.Offsetof(call.Types), unsafe.Offsetof(ccall.types), 8},
			{"args", unsafe.Offsetof(call.Args), unsafe.Offsetof(ccall.args), 8},
			{"return_type", unsafe.Offsetof(call.ReturnType), unsafe.Offsetof(ccall.return_type), 4},
			{"flags", unsafe.Offsetof(call.Flags), unsafe.Offsetof(ccall.flags), 4},
		}},
	}
}
