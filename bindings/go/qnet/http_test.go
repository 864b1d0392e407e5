// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"quoit"
)

// serveHTTP runs an http.Server over a listener of n, until the test ends.
func serveHTTP(t *testing.T, n *Net, secure bool) *httptest.Server {
	t.Helper()
	ln := listen(t, n)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(all)
	})
	mux.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < 3; i++ {
			fmt.Fprintln(w, "part", i)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done() // ended by the client's leaving
		w.Header().Set("X", "y")
	})
	s := httptest.NewUnstartedServer(mux)
	s.Listener.Close()
	s.Listener = ln
	s.EnableHTTP2 = secure
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// httpClient is a client whose connections are n's too.
func httpClient(t *testing.T, n *Net, s *httptest.Server) *http.Client {
	transport := s.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = n.DialContext
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func body(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", response.Status, err)
	}
	return string(all)
}

// Go's own HTTP server and client, plain and with TLS and HTTP/2, both over quoit.
func TestHTTP(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
				n := open(t, rt, Options{})
				s := serveHTTP(t, n, secure)
				client := httpClient(t, n, s)
				sent := pattern(3<<20, 1)
				response, err := client.Post(s.URL+"/echo", "application/octet-stream", bytes.NewReader(sent))
				if got := body(t, response, err); got != string(sent) {
					t.Errorf("%d of %d bytes came back right", len(got), len(sent))
				}
				if response != nil && response.ProtoMajor != map[bool]int{false: 1, true: 2}[secure] {
					t.Errorf("spoke %s", response.Proto)
				}
				response, err = client.Get(s.URL + "/stream")
				if got := body(t, response, err); got != "part 0\npart 1\npart 2\n" {
					t.Errorf("streamed %q", got)
				}
				// A connection is used again.
				response, err = client.Get(s.URL + "/peer")
				first := body(t, response, err)
				response, err = client.Get(s.URL + "/peer")
				if second := body(t, response, err); first == "" || first != second {
					t.Errorf("came from %q, then from %q", first, second)
				}
				var group sync.WaitGroup
				for i := 0; i < 10; i++ {
					group.Add(1)
					go func(i int) {
						defer group.Done()
						for j := 0; j < 10; j++ {
							sent := pattern(1000*j, int64(i))
							response, err := client.Post(s.URL+"/echo", "application/octet-stream", bytes.NewReader(sent))
							if got := body(t, response, err); got != string(sent) {
								t.Errorf("request %d of client %d: %d of %d bytes right", j, i, len(got), len(sent))
							}
						}
					}(i)
				}
				group.Wait()
				// The server hears of a client that leaves: its handler's context ends.
				ctx, cancel := context.WithCancel(context.Background())
				request, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/hang", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err = client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				if _, err := io.ReadAll(response.Body); err == nil {
					t.Error("a request that was given up succeeded")
				}
				response.Body.Close()
				within(t, "the server's end", s.Close)
			})
		}
	})
}

// The server's own timeouts end a client that sends nothing, and its Shutdown waits for who is being answered.
func TestHTTPTimeouts(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		ln := listen(t, n)
		began, goOn := make(chan struct{}), make(chan struct{})
		server := &http.Server{
			ReadHeaderTimeout: 20 * time.Millisecond,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-goOn
				fmt.Fprint(w, "answered")
			}),
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(ln) }()

		silent, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		silent.SetDeadline(time.Now().Add(patience))
		if got, err := io.ReadAll(silent); len(got) != 0 || err != nil {
			t.Errorf("a silent client got %q, %v", got, err)
		}

		answer := make(chan string, 1)
		go func() {
			client := http.Client{Transport: &http.Transport{DialContext: n.DialContext}, Timeout: patience}
			response, err := client.Get("http://" + ln.Addr().String())
			answer <- body(t, response, err)
		}()
		<-began
		over := make(chan error, 1)
		go func() { over <- server.Shutdown(context.Background()) }()
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("Serve gave %v", err)
		}
		close(goOn)
		within(t, "Shutdown", func() {
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
		if got := <-answer; got != "answered" {
			t.Errorf("got %q", got)
		}
	})
}
