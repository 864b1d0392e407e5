// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"quoit"
)

// narrow makes one tick bring little, so that bounds can be told to the byte.
var narrow = Options{
	ReadBuffer:  32 << 10,
	WriteBuffer: 48 << 10,
	Worker:      quoit.WorkerOptions{RecvBuffers: 16, EventsMax: 16, RecvBufferSize: 2048},
}

const narrowTick = 16 * 2048

func (c *Conn) waitingToRead() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers
}

func (c *Conn) waitingToWrite() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writers
}

// stuck is a connection whose Write of much waits because the peer does not read; written tells what it returned.
type stuck struct {
	client, server *Conn
	sent           []byte
	written        chan error
	n              int
}

func makeStuck(t *testing.T, n *Net, network, address string) *stuck {
	t.Helper()
	s := &stuck{sent: pattern(8<<20, 1), written: make(chan error, 1)}
	s.client, s.server = connect(t, n, network, address)
	go func() {
		var err error
		s.n, err = s.client.Write(s.sent)
		s.written <- err
	}()
	last := -1
	eventually(t, "a writer that waits for the peer", func() bool {
		s.server.mu.Lock()
		paused := s.server.paused
		s.server.mu.Unlock()
		s.client.mu.Lock()
		waits := s.client.writers == 1 && s.client.owed+s.client.out.len() > n.limits.writeLow
		s.client.mu.Unlock()
		sent := int(n.Workers()[0].Stats().BytesSent)
		still := paused && waits && sent == last
		last = sent
		return still
	})
	return s
}

// A reader that does not read stops the receiving, and with it the writer; both sides hold no more than they may.
func TestBackPressure(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, narrow)
		everyPlace(t, func(t *testing.T, network, address string) {
			s := makeStuck(t, n, network, address)
			s.server.mu.Lock()
			held := s.server.in.len()
			s.server.mu.Unlock()
			if held < narrow.ReadBuffer || held > narrow.ReadBuffer+narrowTick {
				t.Errorf("the reader's side holds %d bytes", held)
			}
			s.client.mu.Lock()
			owed := s.client.owed + s.client.out.len()
			s.client.mu.Unlock()
			if owed > narrow.WriteBuffer || owed <= narrow.WriteBuffer/2 {
				t.Errorf("the writer's side owes %d bytes", owed)
			}
			go func() {
				if err := <-s.written; err != nil || s.n != len(s.sent) {
					t.Errorf("wrote %d: %v", s.n, err)
				}
				s.client.CloseWrite()
			}()
			s.server.SetDeadline(time.Now().Add(patience))
			if got, err := io.ReadAll(s.server); err != nil || !bytes.Equal(got, s.sent) {
				t.Errorf("%d of %d bytes arrived right: %v", len(got), len(s.sent), err)
			}
		})
	})
}

// A Write that its deadline ends says how much of it was taken: exactly that arrives, and later writes follow it.
func TestPartialWrite(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, narrow)
		everyPlace(t, func(t *testing.T, network, address string) {
			s := makeStuck(t, n, network, address)
			s.client.SetWriteDeadline(time.Unix(1, 0))
			if err := <-s.written; !errors.Is(err, os.ErrDeadlineExceeded) || s.n <= 0 || s.n >= len(s.sent) {
				t.Fatalf("wrote %d: %v", s.n, err)
			}
			if again, err := s.client.Write([]byte("x")); again != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("past the deadline: wrote %d, %v", again, err)
			}
			s.client.SetWriteDeadline(time.Time{})
			tail := []byte("after the deadline")
			go func() {
				if _, err := s.client.Write(tail); err != nil {
					t.Error(err)
				}
				s.client.CloseWrite()
			}()
			s.server.SetDeadline(time.Now().Add(patience))
			got, err := io.ReadAll(s.server)
			if want := append(s.sent[:s.n:s.n], tail...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived for %d written: %v", len(got), len(want), err)
			}
		})
	})
}

// Close ends those who wait, on both sides of the connection, with net.ErrClosed.
func TestCloseUnblocks(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, narrow)
		everyPlace(t, func(t *testing.T, network, address string) {
			s := makeStuck(t, n, network, address)
			const waiters = 4
			ends := make(chan error, 2*waiters+1)
			for i := 0; i < waiters; i++ {
				go func() { _, err := s.client.Read(make([]byte, 1)); ends <- err }()
				go func() { _, err := s.client.Write(make([]byte, 1)); ends <- err }()
			}
			eventually(t, "readers and writers that wait", func() bool {
				return s.client.waitingToRead() == waiters && s.client.waitingToWrite() == waiters+1
			})
			if err := s.client.Close(); err != nil {
				t.Error(err)
			}
			within(t, "those who waited", func() {
				ends <- <-s.written
				for i := 0; i < 2*waiters+1; i++ {
					if err := <-ends; !errors.Is(err, net.ErrClosed) {
						t.Errorf("one who waited got %v", err)
					}
				}
			})
			for what, err := range map[string]error{
				"Close":       s.client.Close(),
				"CloseWrite":  s.client.CloseWrite(),
				"CloseRead":   s.client.CloseRead(),
				"SetDeadline": s.client.SetDeadline(time.Now()),
			} {
				var op *net.OpError
				if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
					t.Errorf("%s of a closed connection: %v", what, err)
				}
			}
			// What was taken before still arrives, then the end.
			s.server.SetDeadline(time.Now().Add(patience))
			if got, err := io.ReadAll(s.server); err != nil || !bytes.Equal(got, s.sent[:s.n]) {
				t.Errorf("%d of %d bytes arrived right: %v", len(got), s.n, err)
			}
		})
	})
}

func TestHalfClose(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		everyPlace(t, func(t *testing.T, network, address string) {
			client, server := connect(t, n, network, address)
			client.SetDeadline(time.Now().Add(patience))
			server.SetDeadline(time.Now().Add(patience))
			question, answer := pattern(300<<10, 1), pattern(400<<10, 2)
			wrote := make(chan error, 1)
			go func() {
				_, err := client.Write(question)
				client.CloseWrite()
				wrote <- err
			}()
			if got, err := io.ReadAll(server); err != nil || !bytes.Equal(got, question) {
				t.Fatalf("the question: %d bytes, %v", len(got), err)
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("a write after CloseWrite: %v", err)
			}
			go func() {
				_, err := server.Write(answer)
				server.Close()
				wrote <- err
			}()
			if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, answer) {
				t.Errorf("the answer: %d bytes, %v", len(got), err)
			}
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if n, err := client.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("after the end: %d, %v", n, err)
			}
		})
	})
}

// CloseRead ends a Read that waits, leaves what had come to be read, and leaves writing alone.
func TestCloseRead(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		everyPlace(t, func(t *testing.T, network, address string) {
			client, server := connect(t, n, network, address)
			ends := make(chan error, 1)
			go func() { _, err := client.Read(make([]byte, 1)); ends <- err }()
			eventually(t, "a reader that waits", func() bool { return client.waitingToRead() == 1 })
			client.CloseRead()
			within(t, "the reader", func() {
				if err := <-ends; err != io.EOF {
					t.Errorf("a Read that CloseRead ended: %v", err)
				}
			})
			client.Write([]byte("heard"))
			server.SetDeadline(time.Now().Add(patience))
			got := make([]byte, 5)
			if _, err := io.ReadFull(server, got); err != nil || string(got) != "heard" {
				t.Errorf("got %q, %v", got, err)
			}
			// What came before the call can be read after it.
			client.Write([]byte("before"))
			eventually(t, "bytes to read", func() bool {
				server.mu.Lock()
				defer server.mu.Unlock()
				return server.in.len() == 6
			})
			server.CloseRead()
			if got, err := io.ReadAll(server); err != nil || string(got) != "before" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	})
}

// A peer that resets ends reads and writes with ECONNRESET or EPIPE; what came before can be read.
func TestReset(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ln := listen(t, n)
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		peer.Write([]byte("last words"))
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "last" {
			t.Fatalf("read %q, %v", got, err)
		}
		peer.(*net.TCPConn).SetLinger(0)
		peer.Close()
		rest, err := io.ReadAll(c)
		if !errors.Is(err, syscall.ECONNRESET) || string(rest) != " words" {
			t.Errorf("read %q, %v", rest, err)
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "read" || op.Net != "tcp" || op.Addr != c.RemoteAddr() || op.Timeout() {
			t.Errorf("the error is %#v", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write afterwards: %v", err)
		}
	})
}

// Deadlines: moved while one waits, taken away, and told for each direction alone.
func TestDeadlines(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		everyPlace(t, func(t *testing.T, network, address string) {
			client, server := connect(t, n, network, address)
			ends := make(chan error, 1)
			begin := time.Now()
			client.SetReadDeadline(begin.Add(time.Hour))
			go func() { _, err := client.Read(make([]byte, 1)); ends <- err }()
			eventually(t, "a reader that waits", func() bool { return client.waitingToRead() == 1 })
			soon := time.Now().Add(20 * time.Millisecond)
			client.SetReadDeadline(soon.Round(0)) // a time without a monotonic part counts too
			within(t, "the reader", func() {
				if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a Read ended with %v", err)
				}
			})
			if time.Now().Before(soon) {
				t.Error("a deadline came early")
			}
			if _, err := client.Write([]byte("x")); err != nil {
				t.Errorf("a read deadline ended a write: %v", err)
			}
			client.SetReadDeadline(time.Time{})
			server.Write([]byte("y"))
			if _, err := client.Read(make([]byte, 1)); err != nil {
				t.Errorf("without a deadline: %v", err)
			}
			// One that has passed holds also where bytes wait, as in package net.
			eventually(t, "a byte to read", func() bool {
				server.mu.Lock()
				defer server.mu.Unlock()
				return server.in.len() == 1
			})
			server.SetReadDeadline(time.Now().Add(-time.Second))
			if n, err := server.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("past the deadline: %d, %v", n, err)
			}
			server.SetDeadline(time.Time{})
			if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("after the deadline was taken away: %d, %v", n, err)
			}
		})
	})
}

// Many goroutines write at once: every write arrives in one piece.
func TestWritesStayWhole(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, narrow)
		client, server := connect(t, n, "tcp", "127.0.0.1:0")
		const writers, each, size = 8, 20, 20000
		var group sync.WaitGroup
		for i := 0; i < writers; i++ {
			group.Add(1)
			go func(i int) {
				defer group.Done()
				for j := 0; j < each; j++ {
					if _, err := client.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
						t.Error(err)
						return
					}
				}
			}(i)
		}
		go func() { group.Wait(); client.CloseWrite() }()
		server.SetDeadline(time.Now().Add(patience))
		got := make([]byte, size)
		for i := 0; i < writers*each; i++ {
			if _, err := io.ReadFull(server, got); err != nil {
				t.Fatal(err)
			}
			if bytes.Count(got, got[:1]) != size {
				t.Fatal("a write was torn")
			}
		}
		if rest, err := io.ReadAll(server); len(rest) != 0 || err != nil {
			t.Errorf("%d bytes too many, %v", len(rest), err)
		}
	})
}

func TestEmpty(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		client, _ := connect(t, n, "tcp", "127.0.0.1:0")
		if n, err := client.Read(nil); n != 0 || err != nil {
			t.Errorf("reading nothing: %d, %v", n, err)
		}
		if n, err := client.Write(nil); n != 0 || err != nil {
			t.Errorf("writing nothing: %d, %v", n, err)
		}
	})
}
