// SPDX-License-Identifier: MIT OR Apache-2.0

// Echo sends back what it receives, without copying it: the received bytes themselves are sent.
package main

import (
	"quoit"
	"quoitexamples/service"
)

type echo struct {
	quoit.BaseHandler
	service.Counters
	options service.Options
}

func (e *echo) OnBoot(w *quoit.Worker) error {
	service.Listen(w, e.options.Address, e)
	return nil
}

func (e *echo) OnData(c *quoit.Conn, data []byte) {
	e.Messages++
	e.Bytes += uint64(len(data))
	c.SendLent(data) // a failure ends the connection
}

func main() {
	e := &echo{options: service.Parse("echo HOST:PORT [--driver D] [--buffers N] [--events N]", 0)}
	service.Run(e.options, e, &e.Counters)
}
