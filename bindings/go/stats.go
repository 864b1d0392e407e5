// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import "unsafe"

// Stats is quoit_stats: a worker's counters since it was made.
type Stats struct {
	StructSize      uint32     `json:"-"`
	Driver          Driver     `json:"-"`
	Ticks           uint64     `json:"ticks"`
	SystemCalls     uint64     `json:"system_calls"`
	Crossings       uint64     `json:"crossings"`
	Ops             uint64     `json:"ops"`
	Events          uint64     `json:"events"`
	BytesReceived   uint64     `json:"bytes_received"`
	BytesSent       uint64     `json:"bytes_sent"`
	Accepts         uint64     `json:"accepts"`
	Connects        uint64     `json:"connects"`
	ParkNs          uint64     `json:"park_ns"`
	Parks           uint64     `json:"parks"`
	Sends           uint64     `json:"sends"`
	SendsPartial    uint64     `json:"sends_partial"`
	SendsGathered   uint64     `json:"sends_gathered"`
	RecvNobufs      uint64     `json:"recv_nobufs"`
	RecvRearms      uint64     `json:"recv_rearms"`
	RecvPaused      uint64     `json:"recv_paused"`
	CQOverflows     uint64     `json:"cq_overflows"`
	AcceptStalls    uint64     `json:"accept_stalls"`
	HandedOver      uint64     `json:"handed_over"`
	PostsIn         uint64     `json:"posts_in"`
	PostsRefused    uint64     `json:"posts_refused"`
	Wakes           uint64     `json:"wakes"`
	Offloads        uint64     `json:"offloads"`
	TimersFired     uint64     `json:"timers_fired"`
	ObjectsLive     uint64     `json:"objects_live"`
	OpsLive         uint64     `json:"ops_live"`
	BuffersTotal    uint64     `json:"buffers_total"`
	BuffersFree     uint64     `json:"buffers_free"`
	BuffersKept     uint64     `json:"buffers_kept"`
	SendBytesQueued uint64     `json:"send_bytes_queued"`
	Leaked          uint64     `json:"leaked"`
	TickNsHist      [16]uint64 `json:"tick_ns_hist"`
	ZerocopySends   uint64     `json:"zerocopy_sends"`
	ZerocopyCopied  uint64     `json:"zerocopy_copied"`
	ZerocopyRefused uint64     `json:"zerocopy_refused"`
}

// Stats are the worker's counters now, or as they were when Run ended. Any goroutine.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.StructSize != 0 {
		return w.last
	}
	return readStats(w.handle)
}

func readStats(worker Handle) Stats {
	s := Stats{StructSize: uint32(unsafe.Sizeof(Stats{}))}
	C.quoit_stats_read(C.quoit_handle(worker), (*C.quoit_stats)(unsafe.Pointer(&s)))
	return s
}

// StatsText are the same counters of a live worker as OpenMetrics text. Any goroutine.
func (w *Worker) StatsText() (string, error) {
	text := make([]byte, 64<<10)
	n := C.quoit_stats_text(C.quoit_handle(w.handle), (*C.char)(unsafe.Pointer(&text[0])), C.uint32_t(len(text)))
	if n < 0 {
		return "", statusError("read the statistics", int64(n))
	}
	return string(text[:n]), nil
}

// ProbeEntry is one thing that the library tried on this machine.
type ProbeEntry struct {
	State  uint32 // ProbeUsed and so on
	Status Status // 0, or the errno with which the kernel refused
	Number uint64
	Name   string
	Reason string
	Fix    string
}

// States of a ProbeEntry.
const (
	ProbeUsed    uint32 = C.QUOIT_PROBE_USED
	ProbeRefused uint32 = C.QUOIT_PROBE_REFUSED
	ProbeUnused  uint32 = C.QUOIT_PROBE_UNUSED
	ProbeFact    uint32 = C.QUOIT_PROBE_FACT
)

// Probe tries each feature for real and tells what this machine lets quoit use, and why not where it does not. Any goroutine.
func Probe() ([]ProbeEntry, error) {
	raw := make([]C.quoit_probe_entry, 64)
	n := C.quoit_probe(&raw[0], C.uint32_t(len(raw)))
	if n < 0 {
		return nil, statusError("probe", int64(n))
	}
	if int(n) < len(raw) {
		raw = raw[:n]
	}
	entries := make([]ProbeEntry, len(raw))
	for i := range raw {
		r := &raw[i]
		entries[i] = ProbeEntry{
			uint32(r.state), Status(r.status), uint64(r.number),
			C.GoString(&r.name[0]), C.GoString(&r.reason[0]), C.GoString(&r.fix[0]),
		}
	}
	return entries, nil
}
