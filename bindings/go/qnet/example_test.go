// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"quoit"
	"quoit/qnet"
)

func start() (*qnet.Net, func()) {
	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	n, err := qnet.New(rt, qnet.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return n, func() {
		n.Close()
		rt.Close()
	}
}

// A server that greets, and a client.
func Example() {
	n, stop := start()
	defer stop()
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // the listener was closed
			}
			go func() {
				defer c.Close()
				name, _ := bufio.NewReader(c).ReadString('\n')
				fmt.Fprintf(c, "Hello, %s", name)
			}()
		}
	}()

	c, err := n.DialTimeout("tcp", ln.Addr().String(), 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintln(c, "Gopher")
	answer, err := io.ReadAll(c)
	fmt.Printf("%s%v\n", answer, err)
	// Output:
	// Hello, Gopher
	// <nil>
}

// An http.Server and an http.Client over quoit.
func Example_http() {
	n, stop := start()
	defer stop()
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "you asked for", r.URL.Path)
	})}
	go server.Serve(ln)
	defer server.Shutdown(context.Background())

	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + ln.Addr().String() + "/path")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
	// Output: you asked for /path
}

// A deadline that passes ends a Read, and can be moved on.
func ExampleConn_SetReadDeadline() {
	n, stop := start()
	defer stop()
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := n.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err = c.Read(make([]byte, 1))
	var timeout net.Error
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout())
	// Output: true true
}

// A service over UDP that answers each datagram, and a client that is connected to it.
func ExampleNet_ListenPacket() {
	n, stop := start()
	defer stop()
	server, err := n.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go func() {
		p := make([]byte, 1500)
		for {
			k, from, err := server.ReadFrom(p)
			if err != nil {
				return // the socket was closed
			}
			server.WriteTo([]byte(fmt.Sprintf("%d bytes", k)), from)
		}
	}()

	c, err := n.Dial("udp", server.LocalAddr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	c.Write([]byte("Gopher"))
	answer := make([]byte, 100)
	k, err := c.Read(answer[:3])
	fmt.Printf("%s %v\n", answer[:k], err)
	c.Write(nil) // an empty datagram is one too
	k, info, err := c.(*qnet.PacketConn).ReadPacket(answer)
	fmt.Printf("%s of %d %v\n", answer[:k], info.Length, err)
	// Output:
	// 6 b <nil>
	// 0 bytes of 7 <nil>
}

// A listener and a dialler with options, in the places where package net has them.
func ExampleListenConfig() {
	n, stop := start()
	defer stop()
	lc := qnet.ListenConfig{Net: n, SocketOptions: qnet.SocketOptions{KeepAlive: 30 * time.Second}}
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	d := qnet.Dialer{Net: n, Timeout: 5 * time.Second, SocketOptions: qnet.SocketOptions{TOS: 16}}
	c, err := d.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	accepted, err := ln.Accept() // has what its listener was given
	if err != nil {
		log.Fatal(err)
	}
	defer accepted.Close()
	idle, err := accepted.(*qnet.Conn).Option(quoit.SocketKeepaliveIdle)
	fmt.Println(time.Duration(idle), err)
	fmt.Println(c.(*qnet.Conn).Option(quoit.SocketTOS))
	// Output:
	// 30s <nil>
	// 16 <nil>
}
