// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layouts as this crate was compiled, checked at compile time against the numbers that the ABI froze, and listed so
//! that a test can compare them with the `layout.json` that C wrote.

use crate::bindings::*;
use core::mem::{align_of, offset_of, size_of};

/// A field: its name, offset and size.
pub type Field = (&'static str, usize, usize);

/// A struct as Rust lays it out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: &'static [Field],
}

const fn field_size<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// For each struct, its frozen size (or `grows` for option structs) and its fields in order with their frozen offsets.
macro_rules! layouts {
    ($($name:ident, $size:expr, { $($field:ident: $offset:expr),* $(,)? })*) => {
        $(const _: () = {
            assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            assert!(align_of::<$name>() <= align_of::<u64>(), concat!("alignment of ", stringify!($name)));
            $(assert!(
                offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($name), ".", stringify!($field))
            );)*
        };)*

        /// Every public struct.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: &[$((
                stringify!($field),
                offset_of!($name, $field),
                field_size(|s: &$name| &s.$field),
            )),*],
        }),*];
    };
}

layouts! {
    quoit_op, 64, {
        opcode: 0, flags: 4, target: 8, user_data: 16, addr: 24, len: 32, arg: 36, offset: 40, arg2: 48, timeout_ns: 56,
    }
    quoit_event, 64, {
        kind: 0, flags: 4, source: 8, user_data: 16, result: 24, offset: 32, len: 40, aux: 44, buffer: 48, value: 56,
    }
    quoit_iov, 16, { addr: 0, len: 8, flags: 12 }
    quoit_addr, 128, { family: 0, port: 2, scope: 4, flowinfo: 8, len: 12, bytes: 16 }
    quoit_batch, 128, {
        struct_size: 0, flags: 4, ops: 8, events: 16, nops: 24, ops_max: 28, nevents: 32, events_max: 36, stride: 40,
        scratch_len: 44, scratch_off: 48, now_ns: 56, tick: 64, next_ns: 72, recv_base: 80, recv_size: 88,
        send_base: 96, send_size: 104, worker: 112, reserved: 120,
    }
    quoit_listen_options, 24, { struct_size: 0, flags: 4, streams_max: 8, skew_percent: 12, reserved: 16 }
    quoit_bind_options, 144, { struct_size: 0, flags: 4, reserved: 8, peer: 16 }
    quoit_packet_info, 144, { struct_size: 0, flags: 4, reserved: 8, source: 16 }
    quoit_call, 40, {
        struct_size: 0, nargs: 4, entry: 8, types: 16, args: 24, return_type: 32, flags: 36,
    }
    quoit_probe_entry, 576, { state: 0, status: 4, number: 8, name: 16, reason: 64, fix: 320 }
    quoit_runtime_options, 32, {
        struct_size: 0, flags: 4, driver: 8, pool_threads: 12, pool_queue: 16, reserved: 20, reserved2: 24,
    }
    quoit_worker_options, 112, {
        struct_size: 0, flags: 4, events_max: 8, ops_max: 12, scratch_len: 16, reserved: 20, recv_arena: 24,
        send_arena: 32, recv_buffers: 40, recv_buffer_size: 44, send_limit: 48, kept_stream_max: 56, kept_max: 64,
        ring_entries: 72, cq_entries: 76, objects_max: 80, mailbox_ops: 84, mailbox_bytes: 88, close_timeout_ns: 96,
        cpu: 104, reserved2: 108,
    }
    quoit_stats, 416, {
        struct_size: 0, driver: 4, ticks: 8, system_calls: 16, crossings: 24, ops: 32, events: 40, bytes_received: 48,
        bytes_sent: 56, accepts: 64, connects: 72, park_ns: 80, parks: 88, sends: 96, sends_partial: 104,
        sends_gathered: 112, recv_nobufs: 120, recv_rearms: 128, recv_paused: 136, cq_overflows: 144,
        accept_stalls: 152, handed_over: 160, posts_in: 168, posts_refused: 176, wakes: 184, offloads: 192,
        timers_fired: 200, objects_live: 208, ops_live: 216, buffers_total: 224, buffers_free: 232, buffers_kept: 240,
        send_bytes_queued: 248, leaked: 256, tick_ns_hist: 264, zerocopy_sends: 392, zerocopy_copied: 400,
        zerocopy_refused: 408,
    }
}
