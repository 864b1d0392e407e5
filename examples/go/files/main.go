// SPDX-License-Identifier: MIT OR Apache-2.0

// Files serves the files of a directory. A client sends "GET path\n", as often as it likes on one connection, and
// gets "<length>\n" and the bytes, or "-1 <message>\n". Files are read into lent buffers and sent from there; the
// next piece is read when the last one has left, so that a slow client costs one buffer, not the file.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"quoit"
	"quoitexamples/service"
)

const (
	pieceMax = 256 << 10
	lineMax  = 4096
)

type server struct {
	quoit.BaseHandler
	service.Counters
	options service.Options
	dir     *quoit.File
}

// client is a connection's state.
type client struct {
	s     *server
	c     *quoit.Conn
	input []byte // requests that were received but not yet answered
	busy  bool   // one is being answered
	ended bool   // the client has ended its side
}

func (s *server) OnBoot(w *quoit.Worker) error {
	w.Open(s.options.Rest[0], quoit.OpenRead|quoit.OpenDirectory, 0, func(dir *quoit.File, err error) {
		if err != nil {
			w.Fail(err)
			return
		}
		s.dir = dir
		service.Listen(w, s.options.Address, s)
	})
	return nil
}

func (s *server) OnOpen(c *quoit.Conn) { c.State = &client{s: s, c: c} }

func (s *server) OnData(c *quoit.Conn, data []byte) {
	n := c.State.(*client)
	s.Bytes += uint64(len(data))
	n.input = append(n.input, data...)
	n.next()
}

func (s *server) OnEOF(c *quoit.Conn) {
	n := c.State.(*client)
	n.ended = true
	n.next()
}

// next takes the next request, if none is being answered. Meanwhile nothing more is received.
func (n *client) next() {
	if n.busy || n.c.Closing() {
		return
	}
	end := bytes.IndexByte(n.input, '\n')
	if end < 0 && len(n.input) < lineMax {
		if n.ended {
			n.c.Close()
		} else {
			n.c.Resume()
		}
		return
	}
	if end < 0 || end > lineMax {
		n.c.Write([]byte("-1 the line is too long\n"))
		n.c.Close()
		return
	}
	line := string(n.input[:end])
	n.input = append(n.input[:0], n.input[end+1:]...)
	n.busy = true
	n.s.Messages++
	n.c.Pause()
	path, isGet := cut(line, "GET ")
	if !isGet || !inside(path) {
		n.refuse(errors.New("the request must be GET and a path inside the directory"))
		return
	}
	n.s.dir.OpenAt(path, quoit.OpenRead, 0, func(f *quoit.File, err error) {
		if err != nil {
			n.refuse(err)
			return
		}
		size, err := f.Size()
		if err != nil {
			f.Close(nil)
			n.refuse(err)
			return
		}
		n.piece(f, 0, size)
	})
}

// piece reads and sends the bytes from offset on. The length goes before the first ones.
func (n *client) piece(f *quoit.File, offset, size int64) {
	f.Read(offset, pieceMax, func(data []byte, _ bool, err error) {
		if int64(len(data)) > size-offset { // the file grew: only its first length was promised
			data = data[:size-offset]
		}
		if err != nil && offset == 0 {
			f.Close(nil)
			n.refuse(err)
			return
		}
		if offset == 0 {
			n.c.Write([]byte(fmt.Sprintf("%d\n", size)))
		}
		offset += int64(len(data))
		if offset < size && len(data) == 0 {
			n.c.Abort() // the file shrank: the length was promised
		}
		if len(data) == 0 || n.c.Closing() {
			f.Close(nil)
			n.done()
			return
		}
		err = n.c.SendLentThen(data, func(_ int, err error) {
			if err != nil {
				n.c.Abort()
			} else if offset < size {
				n.piece(f, offset, size)
				return
			}
			f.Close(nil)
			n.done()
		})
		if err != nil {
			n.c.Abort()
			f.Close(nil)
		}
	})
}

func (n *client) refuse(err error) {
	fmt.Fprintf(n.c, "-1 %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	n.done()
}

func (n *client) done() {
	n.busy = false
	n.next()
}

// inside tells whether a path stays inside the directory.
func inside(path string) bool {
	if path == "" || path[0] == '/' || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for _, part := range strings.Split(path, "/") {
		if part == ".." {
			return false
		}
	}
	return true
}

func cut(s, prefix string) (string, bool) {
	return strings.TrimPrefix(s, prefix), strings.HasPrefix(s, prefix)
}

func main() {
	s := &server{options: service.Parse("files HOST:PORT DIRECTORY [--driver D] [--buffers N] [--events N]", 1)}
	service.Run(s.options, s, &s.Counters)
}
