// SPDX-License-Identifier: MIT OR Apache-2.0

// Web is Go's own HTTP server on quoit's listener: nothing in the handlers knows of quoit.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"quoit/qnet"
	"quoitexamples/service"
)

type user struct {
	ID     int      `json:"id"`
	Name   string   `json:"name"`
	Email  string   `json:"email"`
	Active bool     `json:"active"`
	Tags   []string `json:"tags"`
}

const bodyMax = 16 << 20

// routes are the reference service.
func routes() http.Handler {
	users := make([]user, 75)
	for i := range users {
		name := fmt.Sprintf("user-%03d", i)
		users[i] = user{i, name, name + "@example.org", i%3 != 0, []string{"first", "second", "third"}}
	}
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/plaintext", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello, World!") })
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("/users", func(w http.ResponseWriter, r *http.Request) { answer(w, users) })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]string{"message": "Hello, World!"})
	})
	mux.HandleFunc("/compute", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte("quoit"))
		for i := 0; i < 1000; i++ {
			sum = sha256.Sum256(sum[:])
		}
		fmt.Fprintf(w, "%x\n", sum)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Write(body)
	})
	return mux
}

// counted counts requests and the bytes that answer them.
type counted struct {
	next            http.Handler
	requests, bytes atomic.Uint64
}

type countingWriter struct {
	http.ResponseWriter
	bytes *atomic.Uint64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(uint64(n))
	return n, err
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	c.next.ServeHTTP(countingWriter{w, &c.bytes}, r)
}

func run(o service.Options) error {
	rt, options, err := o.Open()
	if err != nil {
		return err
	}
	defer rt.Close()
	n, err := qnet.New(rt, qnet.Options{Worker: options})
	if err != nil {
		return err
	}
	defer n.Close()
	ln, err := n.Listen("tcp", o.Address)
	if err != nil {
		return err
	}
	handler := &counted{next: routes()}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	fmt.Println("listening on", ln.Addr())

	ctx, cancel := service.Until()
	defer cancel()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if err := server.Shutdown(grace); err != nil {
		return err
	}
	if err := n.Shutdown(grace); err != nil {
		return err
	}
	counters := service.Counters{Messages: handler.requests.Load(), Bytes: handler.bytes.Load()}
	return service.Report(rt, n.Workers()[0], &counters)
}

func main() {
	if err := run(service.Parse("web HOST:PORT [--driver D] [--buffers N] [--events N]", 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
