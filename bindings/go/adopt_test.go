// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A connection and its listener leave the worker, are used by Go's own net, and come back; no byte is lost on the way.
func TestAdoptAndDetach(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		var conn *Conn
		h := &echoHandler{}
		open := &hooks{open: func(c *Conn) { conn = c }, data: func(c *Conn, data []byte) { c.SendLent(data) },
			close: func(*Conn, error) { h.closed++ }}
		w := run(t, rt, WorkerOptions{}, open)
		var l *Listener
		w.do(func(done func()) {
			w.Listen("127.0.0.1:0", ListenOptions{}, open, func(made *Listener, err error) { l = made; done() })
		})
		addr := ""
		w.do(func(done func()) { addr = l.Addr(); done() })
		client := dial(t, addr)
		sent := pattern(200000, 1)
		if err := roundTrip(client, sent); err != nil {
			t.Fatal(err)
		}
		detached := func(detach func(done func(int, error))) (fd int) {
			t.Helper()
			w.do(func(done func()) {
				detach(func(got int, err error) {
					if fd = got; err != nil {
						t.Fatal(err)
					}
					done()
				})
			})
			return fd
		}
		fd := detached(func(done func(int, error)) {
			conn.Write(sent) // must leave first
			conn.Detach(done)
			conn.Detach(func(_ int, err error) {
				if !errors.Is(err, EClosing) {
					t.Errorf("a second detach: %v", err)
				}
			})
		})
		if got := make([]byte, len(sent)); true {
			if _, err := io.ReadFull(client, got); err != nil || string(got) != string(sent) {
				t.Errorf("what was written before: %v", err)
			}
		}
		file := os.NewFile(uintptr(fd), "detached")
		plain, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		go client.Write([]byte("ping"))
		plain.SetDeadline(time.Now().Add(patience))
		if p := make([]byte, 4); true {
			if _, err := io.ReadFull(plain, p); err != nil || string(p) != "ping" {
				t.Errorf("read %q, %v", p, err)
			}
		}
		plain.Close()
		back := dup(t, file)
		file.Close()
		w.do(func(done func()) {
			w.AdoptConn(back, open, func(_ *Conn, err error) {
				if err != nil {
					t.Error(err)
				}
				done()
			})
		})
		if err := roundTrip(client, sent); err != nil {
			t.Error(err)
		}

		fd = detached(l.Detach)
		file = os.NewFile(uintptr(fd), "detached")
		plainListener, err := net.FileListener(file)
		if err != nil {
			t.Fatal(err)
		}
		if plainListener.Addr().String() != addr {
			t.Errorf("the listener is at %v", plainListener.Addr())
		}
		plainListener.Close()
		back = dup(t, file)
		file.Close()
		w.do(func(done func()) {
			w.AdoptListener(back, open, func(made *Listener, err error) {
				if err != nil {
					t.Fatal(err)
				}
				l = made
				done()
			})
		})
		if err := roundTrip(dial(t, addr), sent); err != nil {
			t.Error(err)
		}
		w.do(func(done func()) {
			if h.closed != 0 {
				t.Errorf("%d ends were told", h.closed)
			}
			l.Close()
			l.Detach(func(_ int, err error) {
				if !errors.Is(err, EClosing) {
					t.Errorf("detaching a closed listener: %v", err)
				}
			})
			done()
		})
	})
}

func dup(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	return fd
}

// What cannot be adopted stays the caller's.
func TestAdoptRefusals(t *testing.T) {
	each(t, func(t *testing.T, rt *Runtime) {
		w := run(t, rt, WorkerOptions{}, &hooks{})
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		f, err := udp.(*net.UDPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fd := int(f.Fd())
		w.do(func(done func()) {
			w.AdoptConn(fd, &hooks{}, func(_ *Conn, err error) {
				if !errors.Is(err, EKind) {
					t.Errorf("a datagram socket as a stream: %v", err)
				}
				w.AdoptListener(-1, &hooks{}, func(_ *Listener, err error) {
					if err == nil {
						t.Error("no descriptor was adopted")
					}
					done()
				})
			})
		})
		heard := make(chan string, 1)
		mine := dup(t, f)
		w.do(func(done func()) {
			h := &mailHandler{heard: func(_ *DatagramSocket, d *Datagram) { heard <- string(d.Data) }}
			w.AdoptDatagramSocket(mine, BindOptions{}, h, func(_ *DatagramSocket, err error) {
				if err != nil {
					t.Error(err)
				}
				done()
			})
		})
		c, err := net.Dial("udp", udp.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte("adopted"))
		if got := <-heard; got != "adopted" {
			t.Errorf("heard %q", got)
		}
	})
}

// The descriptors that a service manager passes are found with their names, if they are this process's.
func TestInheritedFds(t *testing.T) {
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()+1))
	t.Setenv("LISTEN_FDS", "1")
	if list, err := InheritedFds(); len(list) != 0 || err != nil {
		t.Errorf("another process's: %v, %v", list, err)
	}
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("LISTEN_FDS", "no number")
	if _, err := InheritedFds(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no number: %v", err)
	}
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_FDNAMES", "web")
	openThree(t)
	list, err := InheritedFds()
	if len(list) != 1 || list[0] != (InheritedFd{3, "web"}) || err != nil {
		t.Errorf("found %v, %v", list, err)
	}
}

// openThree makes sure that there is a descriptor 3, the first one that LISTEN_FDS means.
func openThree(t *testing.T) {
	var stat syscall.Stat_t
	if syscall.Fstat(3, &stat) == nil {
		return
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil && null != 3 {
		err = syscall.Dup3(null, 3, syscall.O_CLOEXEC)
		syscall.Close(null)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(3) })
}
