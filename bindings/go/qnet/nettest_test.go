// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"quoit"
)

// The Go project's own judge of a net.Conn: eleven tests over TCP and over Unix sockets.
func TestNettest(t *testing.T) {
	each(t, func(t *testing.T, rt *quoit.Runtime) {
		n := open(t, rt, Options{})
		everyPlace(t, func(t *testing.T, network, address string) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				ln, client, server, err := n.pair(network, address)
				if err != nil {
					return nil, nil, nil, err
				}
				return client, server, func() {
					client.Close()
					server.Close()
					ln.Close()
				}, nil
			})
		})
	})
}
