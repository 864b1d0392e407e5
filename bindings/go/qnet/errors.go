// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"errors"
	"net"
	"syscall"

	"quoit"
)

// errEnded is what ends the connections that a Net leaves behind.
var errEnded = net.ErrClosed

// cause is the error as package net would have it: net.ErrClosed when the worker stops or has gone, which is all that
// cancels what waits. An errno is a *quoit.Error, which errors.Is compares with syscall.ECONNRESET and its like.
func cause(err error) error {
	for _, ended := range []error{quoit.EClosed, quoit.EClosing, quoit.EStale, syscall.ECANCELED} {
		if errors.Is(err, ended) {
			return net.ErrClosed
		}
	}
	return err
}
