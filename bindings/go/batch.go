// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// Batch is one tick as the library tells it: the thin layer. It is valid until OnBatch returns.
type Batch struct {
	w *Worker
}

// Worker is the batch's.
func (b *Batch) Worker() *Worker { return b.w }

// Raw is the quoit_batch itself.
func (b *Batch) Raw() *RawBatch { return b.w.raw }

// Events are those of this tick, in C memory.
func (b *Batch) Events() []Event { return b.w.events[:b.w.result] }

// Data are the received bytes that an event carries.
func (b *Batch) Data(e *Event) []byte { return b.w.lent(e) }

// Op gives the next free op, zeroed, to be filled at once. When the array is full what stands in it is submitted
// first. Use UserData below 1<<63.
func (b *Batch) Op() *Op { return b.w.op() }

// Place finds n bytes that C can read for op (its newest, not yet followed by another), and writes their address
// and the flag that belongs to it into op.
func (b *Batch) Place(op *Op, n int) []byte { return b.w.place(op, n) }

// Submit gives the library the ops written so far, without a system call; loans and events stay.
func (b *Batch) Submit() { b.w.flush() }
