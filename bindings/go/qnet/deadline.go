// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"sync"
	"time"
)

// deadline ends the waits on a cond. All but its timer runs under the cond's lock.
type deadline struct {
	past  bool
	at    time.Time
	timer *time.Timer
}

// set moves the deadline; the zero time is none, one that is past ends all waits now.
func (d *deadline) set(at time.Time, cond *sync.Cond) {
	d.at, d.past = at, false
	if d.timer != nil {
		d.timer.Stop() // if it is firing already it finds the new time
	}
	if !at.IsZero() {
		d.check(cond)
	}
}

// check tells a deadline that has been reached, and otherwise has itself called when it will be.
func (d *deadline) check(cond *sync.Cond) {
	left := time.Until(d.at)
	switch {
	case left <= 0:
		d.past = true
		cond.Broadcast()
	case d.timer != nil:
		d.timer.Reset(left)
	default:
		d.timer = time.AfterFunc(left, func() {
			cond.L.Lock()
			defer cond.L.Unlock()
			if !d.at.IsZero() && !d.past {
				d.check(cond)
			}
		})
	}
}
