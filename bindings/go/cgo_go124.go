// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build go1.24

package quoit

// The library keeps no Go pointer past a call and never calls into Go, so what these calls are given can stay on
// the stack. Older Go versions do not know the directives; nothing but a few small allocations differs there.

/*
#cgo noescape quoit_go_turn_nb
#cgo nocallback quoit_go_turn_nb
#cgo noescape quoit_go_submit
#cgo nocallback quoit_go_submit
#cgo noescape quoit_post
#cgo nocallback quoit_post
#cgo noescape quoit_stats_read
#cgo nocallback quoit_stats_read
#cgo noescape quoit_addr_parse
#cgo nocallback quoit_addr_parse
#cgo noescape quoit_addr_text
#cgo nocallback quoit_addr_text
#cgo noescape quoit_peer_addr
#cgo nocallback quoit_peer_addr
#cgo noescape quoit_socket_get
#cgo nocallback quoit_socket_get
#cgo noescape quoit_local_addr
#cgo nocallback quoit_local_addr
#cgo noescape quoit_file_size
#cgo nocallback quoit_file_size
#include "bridge.h"
*/
import "C"
