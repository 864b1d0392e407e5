// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"math"
	"syscall"
)

// File is an open file or directory. It has no cursor: each read and write names its position.
type File struct {
	w      *Worker
	handle Handle
}

// Open opens a path. flags are OpenRead and so on, mode the permissions of a file that is created.
func (w *Worker) Open(path string, flags, mode uint32, done func(f *File, err error)) {
	w.openAt(0, path, flags, mode, done)
}

// OpenAt opens a path relative to f, a directory (OpenDirectory).
func (f *File) OpenAt(path string, flags, mode uint32, done func(f *File, err error)) {
	f.w.openAt(f.handle, path, flags, mode, done)
}

func (w *Worker) openAt(dir Handle, path string, flags, mode uint32, done func(f *File, err error)) {
	o := w.op()
	o.Opcode, o.Target, o.Len, o.Arg, o.Offset = OpOpen, dir, uint32(len(path)), flags, int64(mode)
	o.UserData = w.calls.add("open", func(e *Event) {
		if err := eventError("open "+path, e); err != nil {
			done(nil, err)
			return
		}
		done(&File{w: w, handle: Handle(e.Value)}, nil)
	}, nil)
	copy(w.place(o, len(path)), path)
}

// Handle is the file's, for ops of the program's own.
func (f *File) Handle() Handle { return f.handle }

// Size is the file's size now.
func (f *File) Size() (int64, error) {
	size := int64(C.quoit_file_size(f.w.c, C.quoit_handle(f.handle)))
	if size < 0 {
		return 0, statusError("size of the file", size)
	}
	return size, nil
}

// Read reads up to n bytes (at most ReadMax) at offset. done gets them lent: valid until it returns; SendLent sends
// them on without a copy. eof tells that the file ended there.
func (f *File) Read(offset int64, n int, done func(data []byte, eof bool, err error)) {
	if n > ReadMax {
		n = ReadMax
	}
	o := f.w.op()
	o.Opcode, o.Target, o.Len, o.Offset = OpRead, f.handle, uint32(n), offset
	o.UserData = f.w.calls.add("read", func(e *Event) {
		done(f.w.lent(e), e.Flags&EventEOF != 0, eventError("read", e))
	}, nil)
}

// Write writes p, which is copied, at offset; -1 appends. done gets the number of bytes written.
func (f *File) Write(p []byte, offset int64, done func(n int, err error)) {
	if uint64(len(p)) > math.MaxInt32 {
		done(0, statusError("write", -int64(syscall.EFBIG)))
		return
	}
	o := f.w.op()
	o.Opcode, o.Target, o.Len, o.Offset = OpWrite, f.handle, uint32(len(p)), offset
	o.UserData = f.w.calls.add("write", nil, done)
	copy(f.w.place(o, len(p)), p)
}

// Sync makes what was written durable; dataOnly leaves out metadata that reading does not need.
func (f *File) Sync(dataOnly bool, done func(err error)) {
	o := f.w.op()
	o.Opcode, o.Target = OpFsync, f.handle
	if dataOnly {
		o.Arg = 1
	}
	o.UserData = f.w.calls.add("fsync", nil, func(_ int, err error) { done(err) })
}

// Close closes the file; ops still in flight end first. done may be nil.
func (f *File) Close(done func(err error)) {
	o := f.w.op()
	o.Opcode, o.Target = OpClose, f.handle
	if done == nil {
		o.Flags, o.UserData = FlagQuiet, ownData(tagNone)
		return
	}
	o.UserData = f.w.calls.add("close", nil, func(_ int, err error) { done(err) })
}

// Kept are received bytes that stay the program's until Release.
type Kept struct {
	w      *Worker
	buffer Handle
	data   []byte
}

// Keep keeps lent bytes (what OnData or File.Read handed out, or a part of it, during that call) beyond the call.
// done gets them, or the error, in the next tick; on error they are gone.
func (w *Worker) Keep(data []byte, done func(k *Kept, err error)) {
	_, buffer, ok := w.lentRange(data)
	if !ok {
		done(nil, statusError("keep", int64(ERange)))
		return
	}
	o := w.op()
	o.Opcode, o.Target = OpKeep, buffer
	o.UserData = w.calls.add("keep", func(e *Event) {
		if err := eventError("keep", e); err != nil {
			done(nil, err)
			return
		}
		done(&Kept{w: w, buffer: e.Buffer, data: data}, nil)
	}, nil)
}

// Bytes are the kept bytes, nil after Release.
func (k *Kept) Bytes() []byte { return k.data }

// Release gives the bytes back. Releasing twice does nothing.
func (k *Kept) Release() {
	if k.data == nil {
		return
	}
	k.data = nil
	o := k.w.op()
	o.Opcode, o.Target, o.UserData = OpRelease, k.buffer, ownData(tagNone)
}
