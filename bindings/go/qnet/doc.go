// SPDX-License-Identifier: MIT OR Apache-2.0

// Package qnet gives quoit's connections the shape of package net: a net.Listener, net.Conns and net.PacketConns that any
// goroutine may use, with deadlines, half-close and contexts. What is written for package net works over them: net/http, crypto/tls,
// gRPC, database drivers that take a dialler.
//
//	rt, err := quoit.NewRuntime(quoit.RuntimeOptions{})
//	n, err := qnet.New(rt, qnet.Options{})
//	ln, err := n.Listen("tcp", ":8080")
//	err = http.Serve(ln, handler)
//
//	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
//
// A Net runs its workers on goroutines of its own. Goroutines and workers meet in memory: what was received waits in the
// connection, where Read takes it; what is written waits there until the worker's next tick, which sends all that
// its connections wrote since the last one with one system call. A worker wakes those who wait once per tick.
//
// Both directions are bounded. A connection whose reader does not read stops receiving (Options.ReadBuffer), so that its
// peer has to wait; a Write waits while its connection owes more than Options.WriteBuffer.
//
// What differs from package net:
//
//   - Write returns when the bytes are handed over to the connection, not to the kernel. An error of sending them
//     is told by the next Write.
//   - Close sends what was written and returns at once. At the end of a program Net.Shutdown waits until it has left;
//     Net.Close drops it.
//   - A PacketConn receives ahead of who reads, up to Options.ReadBuffer; an error of sending is told by the next write.
//   - Connections are not closed by the garbage collector.
//   - Names are looked up by package net; a name with many addresses is tried one address after the other.
//
// For a server that wants no goroutine per connection there are the handlers of package quoit.
package qnet
