// SPDX-License-Identifier: MIT OR Apache-2.0

package quoitexamples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 60 * time.Second

// service is one of the programs, running.
type service struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
	at  string
}

func start(t *testing.T, name string, args ...string) *service {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s := &service{t: t, cmd: exec.Command(program, args...)}
	s.cmd.Stderr = os.Stderr
	pipe, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { s.cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop(); s.cmd.Process.Kill(); s.cmd.Wait() })
	s.out = bufio.NewReader(pipe)
	line, err := s.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "listening on ") {
		t.Fatalf("first line %q: %v", line, err)
	}
	s.at = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return s
}

func (s *service) dial() *net.TCPConn {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.at, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

type report struct {
	Language        string
	Driver          string
	HandlerMessages uint64 `json:"handler_messages"`
	HandlerBytes    uint64 `json:"handler_bytes"`
	Stats           map[string]any
}

// stop ends the service and reads its last line.
func (s *service) stop() (r report) {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	line, err := io.ReadAll(s.out)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		s.t.Fatalf("last line %q: %v", line, err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Error(err)
	}
	return r
}

func drivers() []string {
	if forced := os.Getenv("QUOIT_DRIVER"); forced != "" {
		return []string{forced}
	}
	return []string{"auto", "epoll"}
}

func TestEcho(t *testing.T) {
	for _, driver := range drivers() {
		t.Run(driver, func(t *testing.T) {
			s := start(t, "echo", "127.0.0.1:0", "--driver", driver, "--buffers", "16", "--events", "8")
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			c := s.dial()
			go c.Write(sent)
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("the echo differs: %v", err)
			}
			r := s.stop()
			if r.Language != "go" || r.HandlerBytes != uint64(len(sent)) || r.HandlerMessages == 0 ||
				r.Stats["crossings"] == nil || r.Stats["recv_nobufs"] == nil {
				t.Errorf("report %+v", r)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	big := bytes.Repeat([]byte("a file of some size\n"), 100000)
	for name, content := range map[string][]byte{"big": big, "empty": nil, "sub/small": []byte("x")} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, driver := range drivers() {
		t.Run(driver, func(t *testing.T) {
			s := start(t, "files", "127.0.0.1:0", dir, "--driver", driver)
			c := s.dial()
			// All requests at once, the last without its end; then our side is closed.
			fmt.Fprint(c, "GET big\nGET empty\nGET ../etc/passwd\nGET /etc/passwd\nGET none\nGET sub\nPUT x\nGET sub/small\nGET big\nGET")
			c.CloseWrite()
			text, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			rest := text
			expect := func(want []byte) {
				t.Helper()
				header := []byte(fmt.Sprintf("%d\n", len(want)))
				if !bytes.HasPrefix(rest, header) || !bytes.HasPrefix(rest[len(header):], want) {
					t.Fatalf("not the %d bytes expected: %.60q", len(want), rest)
				}
				rest = rest[len(header)+len(want):]
			}
			refused := func() {
				t.Helper()
				end := bytes.IndexByte(rest, '\n')
				if !bytes.HasPrefix(rest, []byte("-1 ")) || end < 0 {
					t.Fatalf("no refusal: %.60q", rest)
				}
				rest = rest[end+1:]
			}
			expect(big)
			expect(nil)
			for i := 0; i < 5; i++ {
				refused()
			}
			expect([]byte("x"))
			expect(big)
			if len(rest) != 0 {
				t.Errorf("more came: %.60q", rest)
			}
			c.Close()

			long := s.dial()
			long.Write(bytes.Repeat([]byte("x"), 10000))
			if text, err := io.ReadAll(long); err != nil || !bytes.HasPrefix(text, []byte("-1 ")) {
				t.Errorf("a line too long: %q, %v", text, err)
			}
			gone := s.dial() // a client that leaves in the middle harms nobody
			fmt.Fprint(gone, strings.Repeat("GET big\n", 50))
			io.ReadFull(gone, make([]byte, 1000))
			gone.SetLinger(0)
			gone.Close()

			again := s.dial()
			fmt.Fprint(again, "GET sub/small\n")
			if line, err := bufio.NewReader(again).ReadString('x'); line != "1\nx" || err != nil {
				t.Errorf("afterwards: %q, %v", line, err)
			}
			if r := s.stop(); r.HandlerMessages < 10 {
				t.Errorf("report %+v", r)
			}
		})
	}
}

func TestWeb(t *testing.T) {
	for _, driver := range drivers() {
		t.Run(driver, func(t *testing.T) {
			s := start(t, "web", "127.0.0.1:0", "--driver", driver)
			client := http.Client{Transport: &http.Transport{}, Timeout: patience}
			get := func(path string) []byte {
				t.Helper()
				answer, err := client.Get("http://" + s.at + path)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Errorf("%s: %s, %v", path, answer.Status, err)
				}
				return body
			}
			var message struct{ Message string }
			if err := json.Unmarshal(get("/json"), &message); err != nil || message.Message != "Hello, World!" {
				t.Errorf("/json says %q, %v", message.Message, err)
			}
			if got := get("/plaintext"); string(got) != "Hello, World!" {
				t.Errorf("/plaintext says %q", got)
			}
			var users []map[string]any
			if page := get("/users"); json.Unmarshal(page, &users) != nil || len(page) < 7000 || len(page) > 9000 {
				t.Errorf("/users has %d bytes", len(page))
			}
			if first, second := get("/compute"), get("/compute"); len(first) == 0 || !bytes.Equal(first, second) {
				t.Errorf("/compute says %q, then %q", first, second)
			}
			get("/health")
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
			answer, err := client.Post("http://"+s.at+"/echo", "application/octet-stream", bytes.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("/echo gave %d of %d bytes back right: %v", len(got), len(sent), err)
			}
			if answer, err := client.Get("http://" + s.at + "/nowhere"); err != nil || answer.StatusCode != http.StatusNotFound {
				t.Errorf("/nowhere: %v, %v", answer, err)
			} else {
				answer.Body.Close()
			}
			client.CloseIdleConnections()
			if r := s.stop(); r.HandlerMessages != 8 || r.HandlerBytes < uint64(len(sent)) || r.Stats["accepts"] == 0.0 {
				t.Errorf("report %+v", r)
			}
		})
	}
}
