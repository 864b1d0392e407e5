// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

import (
	"fmt"
	"syscall"
)

// Status is a quoit_status: >= 0 success, -1 to -4095 an errno, <= -20001 one of the E constants. As an error it is
// a target for errors.Is: errors.Is(err, quoit.EStale).
type Status int32

// Statuses of quoit's own.
const (
	EArgument    Status = C.QUOIT_E_ARGUMENT
	EStructSize  Status = C.QUOIT_E_STRUCT_SIZE
	EFlags       Status = C.QUOIT_E_FLAGS
	EField       Status = C.QUOIT_E_FIELD
	EOpcode      Status = C.QUOIT_E_OPCODE
	EUnsupported Status = C.QUOIT_E_UNSUPPORTED
	EStale       Status = C.QUOIT_E_STALE
	EKind        Status = C.QUOIT_E_KIND
	EWorker      Status = C.QUOIT_E_WORKER
	EHandle      Status = C.QUOIT_E_HANDLE
	EThread      Status = C.QUOIT_E_THREAD
	EReenter     Status = C.QUOIT_E_REENTER
	EForked      Status = C.QUOIT_E_FORKED
	EClosed      Status = C.QUOIT_E_CLOSED
	ETooMany     Status = C.QUOIT_E_TOO_MANY
	ERange       Status = C.QUOIT_E_RANGE
	EBusy        Status = C.QUOIT_E_BUSY
	ELimit       Status = C.QUOIT_E_LIMIT
	EDriver      Status = C.QUOIT_E_DRIVER
	EClosing     Status = C.QUOIT_E_CLOSING
)

// Name is the constant as text: "QUOIT_E_STALE", "ECONNRESET".
func (s Status) Name() string { return C.GoString(C.quoit_status_name(C.quoit_status(s))) }

// Message is a sentence that says what the status means.
func (s Status) Message() string { return C.GoString(C.quoit_status_message(C.quoit_status(s))) }

// Hint is a sentence that says how to fix it.
func (s Status) Hint() string { return C.GoString(C.quoit_status_hint(C.quoit_status(s))) }

// Class says what to do about it.
func (s Status) Class() Class { return Class(C.quoit_status_class(C.quoit_status(s))) }

// Errno is the errno that the status carries, 0 if it is not one.
func (s Status) Errno() syscall.Errno {
	if s < 0 && s >= -4095 {
		return syscall.Errno(-s)
	}
	return 0
}

func (s Status) Error() string { return "quoit: " + s.Message() + " (" + s.Name() + ")" }

// Class groups statuses by what to do about them. As an error it is a target for errors.Is:
// errors.Is(err, quoit.ClassRetry).
type Class int32

// Classes.
const (
	ClassOK        Class = C.QUOIT_CLASS_OK
	ClassRetry     Class = C.QUOIT_CLASS_RETRY
	ClassClosed    Class = C.QUOIT_CLASS_CLOSED
	ClassUsage     Class = C.QUOIT_CLASS_USAGE
	ClassSystem    Class = C.QUOIT_CLASS_SYSTEM
	ClassCancelled Class = C.QUOIT_CLASS_CANCELLED
)

func (c Class) Error() string {
	switch c {
	case ClassOK:
		return "quoit: success"
	case ClassRetry:
		return "quoit: try again later"
	case ClassClosed:
		return "quoit: the peer, the object or the runtime has gone"
	case ClassUsage:
		return "quoit: the program asked wrongly"
	case ClassSystem:
		return "quoit: the system refused or failed"
	case ClassCancelled:
		return "quoit: cancelled or timed out as asked"
	}
	return fmt.Sprintf("quoit: class %d", int32(c))
}

// Error is the error of a call or of an operation.
type Error struct {
	Status Status
	Op     string // what was asked: "listen", "send"
	Field  uint32 // the op's field that was refused (FieldAddr and so on), 0 if none
}

// Name, Message and Hint are those of the Status.
func (e *Error) Name() string    { return e.Status.Name() }
func (e *Error) Message() string { return e.Status.Message() }
func (e *Error) Hint() string    { return e.Status.Hint() }

func (e *Error) Error() string {
	text := "quoit: " + e.Op + ": " + e.Message() + " (" + e.Name()
	if e.Field != 0 {
		text += ", field " + fieldName(e.Field)
	}
	return text + ")"
}

// Is matches a Status, a Class, an *Error of the same status, and what the errno matches (syscall.ECONNRESET,
// fs.ErrNotExist, os.ErrDeadlineExceeded).
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Status:
		return e.Status == t
	case Class:
		return e.Status.Class() == t
	case *Error:
		return e.Status == t.Status
	case syscall.Errno:
		return t != 0 && e.Status.Errno() == t
	}
	if errno := e.Status.Errno(); errno != 0 {
		return errno.Is(target)
	}
	return false
}

// Timeout makes *Error usable where net.Error is expected.
func (e *Error) Timeout() bool { return e.Status == -Status(syscall.ETIMEDOUT) }

// Temporary is true when trying again later may succeed.
func (e *Error) Temporary() bool { return e.Status.Class() == ClassRetry }

func fieldName(field uint32) string {
	names := [...]string{"", "opcode", "flags", "target", "user_data", "addr", "len", "arg", "offset", "arg2", "timeout_ns"}
	if int(field) < len(names) {
		return names[field]
	}
	return fmt.Sprint(field)
}

// statusError is nil for success. It makes a value only when there is an error to tell.
func statusError(op string, status int64) error {
	if status >= 0 {
		return nil
	}
	return &Error{Status: Status(status), Op: op}
}

// eventError is the error that an event carries, or nil.
func eventError(op string, e *Event) error {
	if e.Result >= 0 {
		return nil
	}
	err := &Error{Status: Status(e.Result), Op: op}
	if err.Status <= EArgument {
		err.Field = e.Aux
	}
	return err
}

// PanicError is what Run returns when a handler panicked.
type PanicError struct {
	Value any    // what panic was given
	Stack []byte // the stack at that point, as runtime/debug.Stack writes it
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("quoit: a handler panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap gives the value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
