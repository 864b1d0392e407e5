// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestErrors(t *testing.T) {
	stale := error(&Error{Status: EStale, Op: "send", Field: FieldTarget})
	for _, part := range []string{"send", "QUOIT_E_STALE", "field target", EStale.Message()} {
		if !strings.Contains(stale.Error(), part) {
			t.Errorf("%q does not say %q", stale, part)
		}
	}
	reset := statusError("recv", -int64(syscall.ECONNRESET))
	for _, match := range []struct {
		err, target error
		want        bool
	}{
		{stale, EStale, true},
		{stale, EKind, false},
		{stale, &Error{Status: EStale}, true},
		{stale, ClassUsage, EStale.Class() == ClassUsage},
		{stale, syscall.ECONNRESET, false},
		{stale, fs.ErrNotExist, false},
		{reset, syscall.ECONNRESET, true},
		{reset, ClassClosed, true},
		{reset, ClassRetry, false},
		{statusError("open", -int64(syscall.ENOENT)), fs.ErrNotExist, true},
		{statusError("open", -int64(syscall.EACCES)), os.ErrPermission, true},
		{statusError("send", -int64(syscall.ENOBUFS)), ClassRetry, Status(-int(syscall.ENOBUFS)).Class() == ClassRetry},
	} {
		if got := errors.Is(match.err, match.target); got != match.want {
			t.Errorf("errors.Is(%v, %v) = %v", match.err, match.target, got)
		}
	}
	if statusError("turn", 7) != nil {
		t.Error("a count is an error")
	}
	late := &Error{Status: Status(-int(syscall.ETIMEDOUT))}
	if !late.Timeout() || (&Error{Status: EStale}).Timeout() {
		t.Error("Timeout is wrong")
	}
	if !(&Error{Status: Status(-int(syscall.EAGAIN))}).Temporary() {
		t.Error("EAGAIN is not temporary")
	}
}

// Every status has a name, a sentence and a hint.
func TestStatusTexts(t *testing.T) {
	for s := EClosing; s <= EArgument; s++ {
		if !strings.HasPrefix(s.Name(), "QUOIT_E_") || s.Message() == "" || s.Hint() == "" {
			t.Errorf("status %d: %q, %q, %q", s, s.Name(), s.Message(), s.Hint())
		}
		if s.Class() == ClassOK || strings.Contains(s.Class().Error(), "class") {
			t.Errorf("status %d is of class %d", s, s.Class())
		}
		if s.Errno() != 0 {
			t.Errorf("status %d has an errno", s)
		}
	}
	if s := Status(-int(syscall.EPERM)); s.Name() != "EPERM" || s.Errno() != syscall.EPERM || s.Hint() == "" {
		t.Errorf("EPERM: %q, %v, %q", s.Name(), s.Errno(), s.Hint())
	}
	if s := Status(-99999); s.Name() == "" || s.Message() == "" {
		t.Error("an unknown status has no text")
	}
}

func TestVersionAndProbe(t *testing.T) {
	if Version() == "" || VersionNum() == 0 || !Supported(OpSend) || Supported(0x7FFF) {
		t.Errorf("version %q, %x", Version(), VersionNum())
	}
	if !HasFeature(FeatureEpoll) || HasFeature(9999) {
		t.Error("the features are wrong")
	}
	entries, err := Probe()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d entries: %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Name == "" || e.Reason == "" || e.State < ProbeUsed || e.State > ProbeFact {
			t.Errorf("entry %+v", e)
		}
	}
	if _, err := ParseDriver("fastest"); err == nil {
		t.Error("an unknown driver was taken")
	}
	if d, err := ParseDriver("uring-coop"); d != DriverURingCoop || err != nil || d.String() != "uring-coop" {
		t.Errorf("uring-coop is %v, %v", d, err)
	}
}

func TestAddresses(t *testing.T) {
	for _, text := range []string{"127.0.0.1:80", "[::1]:8080", "unix:/run/socket", "unix:@name"} {
		a, err := ParseAddr(text)
		if err != nil || a.String() != text {
			t.Errorf("%s became %s: %v", text, a, err)
		}
	}
	for _, text := range []string{"", "localhost", "127.0.0.1", "127.0.0.1:70000", "unix:" + strings.Repeat("x", 200)} {
		if _, err := ParseAddr(text); !errors.Is(err, EArgument) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What the library says of bad options comes through.
func TestBadOptions(t *testing.T) {
	if _, err := NewRuntime(RuntimeOptions{Driver: 77}); err == nil {
		t.Error("an unknown driver was taken")
	}
	rt, err := NewRuntime(RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, o := range []WorkerOptions{{RecvBuffers: 3}, {EventsMax: 1 << 20}, {RecvBufferSize: 1}} {
		if _, err := rt.NewWorker(o); !errors.Is(err, EArgument) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
}
