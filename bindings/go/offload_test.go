// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"hash/crc32"
	"math"
	"syscall"
	"testing"
)

// call offloads a function and waits for its result.
func (r *running) call(f Function, result CType, args ...any) (v Value, err error) {
	r.do(func(done func()) {
		r.Offload(f, result, args, func(value Value, failed error) {
			v, err = value, failed
			done()
		})
	})
	return v, err
}

func symbol(t *testing.T, library, name string) Function {
	t.Helper()
	f, err := Symbol(library, name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOffload(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		v, err := w.call(symbol(t, "libm.so.6", "pow"), CDouble, 2.5, 3.0)
		if v.Float64() != 15.625 || err != nil {
			t.Errorf("pow(2.5, 3) = %v, %v", v.Float64(), err)
		}
		v, err = w.call(symbol(t, "libm.so.6", "powf"), CFloat, float32(3), float32(2))
		if v.Float32() != 9 || err != nil {
			t.Errorf("powf(3, 2) = %v, %v", v.Float32(), err)
		}

		data := pattern(1<<20, 5)
		v, err = w.call(symbol(t, "libz.so.1", "crc32"), CUint64, uint64(0), data, uint32(len(data)))
		if want := crc32.ChecksumIEEE(data); v.Uint() != uint64(want) || err != nil {
			t.Errorf("crc32 = %x, want %x, %v", v.Uint(), want, err)
		}

		v, err = w.call(symbol(t, "", "strlen"), CUint64, "twelve bytes")
		if v.Uint() != 12 || err != nil {
			t.Errorf("strlen = %d, %v", v.Uint(), err)
		}
		v, err = w.call(symbol(t, "", "abs"), CInt32, int32(math.MinInt32+1))
		if v.Int() != math.MaxInt32 || err != nil {
			t.Errorf("abs = %d, %v", v.Int(), err)
		}

		mem := Alloc(8)
		defer mem.Free()
		v, err = w.call(symbol(t, "", "memset"), CPointer, mem, int32('z'), uint64(4))
		if v.Uint() != mem.Address() || string(mem.Bytes()) != "zzzz\x00\x00\x00\x00" || err != nil {
			t.Errorf("memset gave %x and %q, %v", v.Uint(), mem.Bytes(), err)
		}

		if _, err = w.call(symbol(t, "", "abs"), CInt32, struct{}{}); err == nil {
			t.Error("a struct was taken as an argument")
		}
		if _, err = w.call(symbol(t, "", "abs"), CInt32, make([]any, CallArgsMax+1)...); !errors.Is(err, EArgument) {
			t.Errorf("too many arguments: %v", err)
		}
		if _, err = w.call(symbol(t, "", "abs"), CType(99), int32(1)); err == nil {
			t.Error("an unknown result type was taken")
		}
		if _, err := Symbol("libm.so.6", "no_such_symbol"); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("an unknown symbol: %v", err)
		}
		if _, err := Symbol("libnone.so.99", "pow"); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("an unknown library: %v", err)
		}
	})
}

// A function that sleeps for two seconds holds nobody up.
func TestOffloadBlocks(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		h := &echoHandler{}
		w := run(t, rt, WorkerOptions{}, h)
		c := dial(t, w.listen("127.0.0.1:0", h))
		usleep := symbol(t, "", "usleep")
		slept := make(chan error, 1)
		w.do(func(done func()) {
			w.Offload(usleep, CInt32, []any{uint32(2000000)}, func(_ Value, err error) { slept <- err })
			done()
		})
		for i := 0; i < 1000; i++ {
			if err := roundTrip(c, []byte("meanwhile")); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-slept:
			t.Error("1,000 echoes took longer than the call that sleeps")
		default:
			if err := <-slept; err != nil {
				t.Error(err)
			}
		}
	})
}

// More calls than the pool has threads and places: each is answered, the surplus with EAGAIN.
func TestOffloadFull(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		own, err := NewRuntime(RuntimeOptions{Driver: rt.Driver(), PoolThreads: 1, PoolQueue: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		})
		w := run(t, own, WorkerOptions{}, &hooks{})
		usleep := symbol(t, "", "usleep")
		const n = 20
		answered, full := 0, 0
		w.do(func(done func()) {
			for i := 0; i < n; i++ {
				w.Offload(usleep, CInt32, []any{uint32(2000)}, func(_ Value, err error) {
					if errors.Is(err, syscall.EAGAIN) && errors.Is(err, ClassRetry) {
						full++
					} else if err != nil {
						t.Error(err)
					}
					if answered++; answered == n {
						done()
					}
				})
			}
		})
		if full == 0 || full == n {
			t.Errorf("%d of %d calls found the pool full", full, n)
		}
	})
}
