// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// open opens a file and waits for it.
func (r *running) open(path string, flags, mode uint32) (f *File, err error) {
	r.do(func(done func()) {
		r.Open(path, flags, mode, func(opened *File, failed error) {
			f, err = opened, failed
			done()
		})
	})
	return f, err
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		path := filepath.Join(t.TempDir(), "file")
		want := pattern(5<<20+3, 11)

		f, err := w.open(path, OpenRead|OpenWrite|OpenCreate|OpenExclusive, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		for offset := 0; offset < len(want); offset += 3 << 20 {
			piece := want[offset:]
			if len(piece) > 3<<20 {
				piece = piece[:3<<20]
			}
			w.do(func(done func()) {
				f.Write(piece, int64(offset), func(n int, err error) {
					if n != len(piece) || err != nil {
						t.Errorf("wrote %d of %d: %v", n, len(piece), err)
					}
					done()
				})
			})
		}
		w.do(func(done func()) {
			f.Write([]byte("end"), -1, func(n int, err error) {
				if n != 3 || err != nil {
					t.Errorf("appended %d: %v", n, err)
				}
				f.Sync(true, func(err error) {
					if err != nil {
						t.Error(err)
					}
					f.Sync(false, func(err error) {
						if err != nil {
							t.Error(err)
						}
						done()
					})
				})
			})
		})
		want = append(want, "end"...)
		var size int64
		w.do(func(done func()) { size, err = f.Size(); done() })
		if size != int64(len(want)) || err != nil {
			t.Errorf("size %d of %d: %v", size, len(want), err)
		}
		if disk, err := os.ReadFile(path); err != nil || !bytes.Equal(disk, want) {
			t.Errorf("%d bytes on disk differ from %d: %v", len(disk), len(want), err)
		}

		var got []byte
		w.do(func(done func()) {
			var piece func(data []byte, eof bool, err error)
			piece = func(data []byte, eof bool, err error) {
				got = append(got, data...)
				if err != nil || eof || len(data) == 0 {
					if err != nil {
						t.Error(err)
					}
					done()
					return
				}
				f.Read(int64(len(got)), 256<<10, piece)
			}
			f.Read(0, 256<<10, piece)
		})
		if !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, not the %d written", len(got), len(want))
		}
		w.do(func(done func()) {
			f.Close(func(err error) {
				if err != nil {
					t.Error(err)
				}
				f.Read(0, 10, func(_ []byte, _ bool, err error) {
					if !errors.Is(err, EStale) {
						t.Errorf("reading a closed file: %v", err)
					}
					if _, err := f.Size(); !errors.Is(err, EStale) {
						t.Errorf("size of a closed file: %v", err)
					}
					done()
				})
			})
		})
	})
}

func TestFileErrors(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		dir := t.TempDir()
		if _, err := w.open(filepath.Join(dir, "none"), OpenRead, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening what is not there: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "there"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := w.open(dir, OpenRead|OpenDirectory, 0)
		if err != nil {
			t.Fatal(err)
		}
		if kind := d.Handle().Kind(); kind != HandleDirectory {
			t.Errorf("a directory's handle is of kind %d", kind)
		}
		w.do(func(done func()) {
			d.OpenAt("there", OpenRead, 0, func(f *File, err error) {
				if err != nil {
					t.Error(err)
					done()
					return
				}
				f.Write([]byte("x"), 0, func(_ int, err error) {
					if !errors.Is(err, syscall.EBADF) {
						t.Errorf("writing to a file open for reading: %v", err)
					}
					f.Read(100, 10, func(data []byte, eof bool, err error) {
						if len(data) != 0 || !eof || err != nil {
							t.Errorf("reading behind the end: %q, %v, %v", data, eof, err)
						}
						f.Read(0, 2*ReadMax, func(data []byte, _ bool, err error) {
							if string(data) != "text" || err != nil {
								t.Errorf("read %q, %v", data, err)
							}
							f.Close(nil)
							done()
						})
					})
				})
			})
		})
		w.do(func(done func()) {
			d.Read(0, 10, func(_ []byte, _ bool, err error) {
				if err == nil {
					t.Error("a directory was read as a file")
				}
				d.Close(nil)
				done()
			})
		})
	})
}
