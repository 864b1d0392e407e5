# SPDX-License-Identifier: MIT OR Apache-2.0
# Generated from the public headers by build_ffi.py --write.
from typing import Any

ffi: Any

class _Lib:
    QUOIT_VERSION_NUM: int
    QUOIT_HANDLE_WORKER: int
    QUOIT_HANDLE_LISTENER: int
    QUOIT_HANDLE_STREAM: int
    QUOIT_HANDLE_FILE: int
    QUOIT_HANDLE_DIRECTORY: int
    QUOIT_HANDLE_TIMER: int
    QUOIT_HANDLE_POLL: int
    QUOIT_HANDLE_BUFFER: int
    QUOIT_HANDLE_DATAGRAM: int
    QUOIT_HANDLE_CHANNEL: int
    QUOIT_OK: int
    QUOIT_E_ARGUMENT: int
    QUOIT_E_STRUCT_SIZE: int
    QUOIT_E_FLAGS: int
    QUOIT_E_FIELD: int
    QUOIT_E_OPCODE: int
    QUOIT_E_UNSUPPORTED: int
    QUOIT_E_STALE: int
    QUOIT_E_KIND: int
    QUOIT_E_WORKER: int
    QUOIT_E_HANDLE: int
    QUOIT_E_THREAD: int
    QUOIT_E_REENTER: int
    QUOIT_E_FORKED: int
    QUOIT_E_CLOSED: int
    QUOIT_E_TOO_MANY: int
    QUOIT_E_RANGE: int
    QUOIT_E_BUSY: int
    QUOIT_E_LIMIT: int
    QUOIT_E_DRIVER: int
    QUOIT_E_CLOSING: int
    QUOIT_FIELD_OPCODE: int
    QUOIT_FIELD_FLAGS: int
    QUOIT_FIELD_TARGET: int
    QUOIT_FIELD_USER_DATA: int
    QUOIT_FIELD_ADDR: int
    QUOIT_FIELD_LEN: int
    QUOIT_FIELD_ARG: int
    QUOIT_FIELD_OFFSET: int
    QUOIT_FIELD_ARG2: int
    QUOIT_FIELD_TIMEOUT: int
    QUOIT_CLASS_OK: int
    QUOIT_CLASS_RETRY: int
    QUOIT_CLASS_CLOSED: int
    QUOIT_CLASS_USAGE: int
    QUOIT_CLASS_SYSTEM: int
    QUOIT_CLASS_CANCELLED: int
    QUOIT_FEATURE_URING: int
    QUOIT_FEATURE_EPOLL: int
    QUOIT_FEATURE_OFFLOAD: int
    QUOIT_IOV_MAX: int
    QUOIT_EVF_MORE: int
    QUOIT_EVF_EOF: int
    QUOIT_EVF_LENT: int
    QUOIT_EVF_KEPT: int
    QUOIT_EVF_COPIED: int
    QUOIT_EVF_TRUNC: int
    QUOIT_EVF_NONEMPTY: int
    QUOIT_EVF_MESSAGE: int
    QUOIT_EVF_CREDENTIALS: int
    QUOIT_KIND_BAD_OP: int
    QUOIT_KIND_MESSAGE: int
    QUOIT_KIND_MOVED: int
    QUOIT_KIND_DRAIN: int
    QUOIT_KIND_GREASE: int
    QUOIT_BATCH_INTERRUPTED: int
    QUOIT_BATCH_LEFT: int
    QUOIT_BATCH_DRAINED: int
    QUOIT_OPEN_READ: int
    QUOIT_OPEN_WRITE: int
    QUOIT_OPEN_CREATE: int
    QUOIT_OPEN_EXCLUSIVE: int
    QUOIT_OPEN_TRUNCATE: int
    QUOIT_OPEN_APPEND: int
    QUOIT_OPEN_DIRECTORY: int
    QUOIT_OPEN_NOFOLLOW: int
    QUOIT_OPEN_SYNC: int
    QUOIT_OPEN_DIRECT: int
    QUOIT_LOG_ERROR: int
    QUOIT_LOG_WARNING: int
    QUOIT_LOG_INFO: int
    QUOIT_LOG_DEBUG: int
    QUOIT_FAMILY_UNIX: int
    QUOIT_FAMILY_V4: int
    QUOIT_FAMILY_V6: int
    QUOIT_LISTEN_REUSEPORT: int
    QUOIT_LISTEN_V6ONLY: int
    QUOIT_LISTEN_DELAY: int
    QUOIT_LISTEN_UNLINK: int
    QUOIT_LISTEN_FREEBIND: int
    QUOIT_LISTEN_DEFER_ACCEPT: int
    QUOIT_LISTEN_SEQPACKET: int
    QUOIT_CONNECT_DELAY: int
    QUOIT_CONNECT_SEQPACKET: int
    QUOIT_BIND_REUSEPORT: int
    QUOIT_BIND_V6ONLY: int
    QUOIT_BIND_BROADCAST: int
    QUOIT_BIND_UNLINK: int
    QUOIT_BIND_PKTINFO: int
    QUOIT_BIND_GRO: int
    QUOIT_SEND_CORK: int
    QUOIT_SHUTDOWN_RECV: int
    QUOIT_SHUTDOWN_SEND: int
    QUOIT_SHUTDOWN_BOTH: int
    QUOIT_OPF_MULTI: int
    QUOIT_OPF_KEEP: int
    QUOIT_OPF_QUIET: int
    QUOIT_OPF_BORROW: int
    QUOIT_OPF_IOV: int
    QUOIT_OPF_ARENA_SEND: int
    QUOIT_OPF_ARENA_RECV: int
    QUOIT_OPF_ARGS: int
    QUOIT_OPF_ABS: int
    QUOIT_OPF_LINK: int
    QUOIT_OPF_AUTO_RECV: int
    QUOIT_OPF_ZEROCOPY: int
    QUOIT_OPF_ABORT: int
    QUOIT_OPF_ARMED: int
    QUOIT_OP_NOP: int
    QUOIT_OP_LISTEN: int
    QUOIT_OP_ACCEPT: int
    QUOIT_OP_CONNECT: int
    QUOIT_OP_RECV: int
    QUOIT_OP_RECV_PAUSE: int
    QUOIT_OP_RECV_RESUME: int
    QUOIT_OP_SEND: int
    QUOIT_OP_SENDV: int
    QUOIT_OP_SHUTDOWN: int
    QUOIT_OP_CLOSE: int
    QUOIT_OP_CANCEL: int
    QUOIT_OP_TIMER: int
    QUOIT_OP_POST: int
    QUOIT_OP_POLL: int
    QUOIT_OP_OPEN: int
    QUOIT_OP_READ: int
    QUOIT_OP_WRITE: int
    QUOIT_OP_FSYNC: int
    QUOIT_OP_OFFLOAD: int
    QUOIT_OP_KEEP: int
    QUOIT_OP_RELEASE: int
    QUOIT_OP_BIND: int
    QUOIT_OP_RECVMSG: int
    QUOIT_OP_SENDMSG: int
    QUOIT_OP_MULTICAST: int
    QUOIT_OP_SOCKET_SET: int
    QUOIT_OP_ADOPT: int
    QUOIT_OP_DETACH: int
    QUOIT_OP_SPLICE: int
    QUOIT_OP_SEND_FD: int
    QUOIT_OP_RECV_FD: int
    QUOIT_OP_MOVE: int
    QUOIT_OP_CHANNEL: int
    QUOIT_OP_CHANNEL_SEND: int
    QUOIT_OP_CHANNEL_RECV: int
    QUOIT_DATAGRAM_MAX: int
    QUOIT_MULTICAST_JOIN: int
    QUOIT_MULTICAST_LEAVE: int
    QUOIT_FDS_MAX: int
    QUOIT_CHANNEL_MANY_TO_ONE: int
    QUOIT_CHANNEL_ONE_TO_ONE: int
    QUOIT_CHANNEL_ONESHOT: int
    QUOIT_CHANNEL_MAX: int
    QUOIT_READ_MAX: int
    QUOIT_POLL_IN: int
    QUOIT_POLL_OUT: int
    QUOIT_POLL_ERR: int
    QUOIT_POLL_HUP: int
    QUOIT_POLL_RDHUP: int
    QUOIT_POLL_PRI: int
    QUOIT_CALL_ARGS_MAX: int
    QUOIT_TYPE_VOID: int
    QUOIT_TYPE_I8: int
    QUOIT_TYPE_U8: int
    QUOIT_TYPE_I16: int
    QUOIT_TYPE_U16: int
    QUOIT_TYPE_I32: int
    QUOIT_TYPE_U32: int
    QUOIT_TYPE_I64: int
    QUOIT_TYPE_U64: int
    QUOIT_TYPE_FLOAT: int
    QUOIT_TYPE_DOUBLE: int
    QUOIT_TYPE_POINTER: int
    QUOIT_PROBE_USED: int
    QUOIT_PROBE_REFUSED: int
    QUOIT_PROBE_UNUSED: int
    QUOIT_PROBE_FACT: int
    QUOIT_DRIVER_AUTO: int
    QUOIT_DRIVER_URING: int
    QUOIT_DRIVER_URING_DEFER: int
    QUOIT_DRIVER_URING_COOP: int
    QUOIT_DRIVER_URING_PLAIN: int
    QUOIT_DRIVER_EPOLL: int
    QUOIT_RUNTIME_LOG_STDERR: int
    QUOIT_WORKER_GREASE: int
    QUOIT_RUN_STOP: int
    QUOIT_SIGNAL_TERM: int
    QUOIT_SIGNAL_INT: int
    QUOIT_SIGNAL_HUP: int
    QUOIT_SIGNAL_QUIT: int
    QUOIT_SOCKET_NODELAY: int
    QUOIT_SOCKET_KEEPALIVE: int
    QUOIT_SOCKET_KEEPALIVE_IDLE: int
    QUOIT_SOCKET_KEEPALIVE_INTERVAL: int
    QUOIT_SOCKET_KEEPALIVE_COUNT: int
    QUOIT_SOCKET_LINGER: int
    QUOIT_SOCKET_DEFER_ACCEPT: int
    QUOIT_SOCKET_SEND_BUFFER: int
    QUOIT_SOCKET_RECV_BUFFER: int
    QUOIT_SOCKET_TOS: int
    QUOIT_SOCKET_INCOMING_CPU: int
    QUOIT_SOCKET_BUSY_POLL: int
    QUOIT_SOCKET_USER_TIMEOUT: int
    QUOIT_SOCKET_PRIORITY: int
    QUOIT_SOCKET_MARK: int
    QUOIT_SOCKET_FREEBIND: int
    QUOIT_SOCKET_V6ONLY: int
    QUOIT_SOCKET_REUSEPORT: int
    QUOIT_SOCKET_CREDENTIALS: int
    QUOIT_CLOCK_MONOTONIC: int
    QUOIT_CLOCK_BOOT: int
    QUOIT_CLOCK_WALL: int
    def quoit_version(self) -> int: ...
    def quoit_version_text(self) -> Any: ...
    def quoit_feature(self, feature: int) -> int: ...
    def quoit_op_supported(self, opcode: int) -> int: ...
    def quoit_status_name(self, status: int) -> Any: ...
    def quoit_status_message(self, status: int) -> Any: ...
    def quoit_status_hint(self, status: int) -> Any: ...
    def quoit_status_class(self, status: int) -> int: ...
    def quoit_handle_kind(self, handle: int) -> int: ...
    def quoit_file_size(self, worker: Any, file: int) -> int: ...
    def quoit_log_read(self, runtime: Any, text: Any, capacity: int, level: Any) -> int: ...
    def quoit_addr_parse(self, text: Any, text_len: int, out: Any) -> int: ...
    def quoit_addr_text(self, addr: Any, text: Any, capacity: int) -> int: ...
    def quoit_peer_addr(self, worker: Any, handle: int, out: Any) -> int: ...
    def quoit_local_addr(self, worker: Any, handle: int, out: Any) -> int: ...
    def quoit_symbol(self, path: Any, symbol: Any, address: Any) -> int: ...
    def quoit_probe(self, entries: Any, capacity: int) -> int: ...
    def quoit_probe_driver(self) -> int: ...
    def quoit_runtime_create(self, options: Any, out: Any) -> int: ...
    def quoit_runtime_destroy(self, runtime: Any) -> int: ...
    def quoit_runtime_driver(self, runtime: Any) -> int: ...
    def quoit_runtime_driver_reason(self, runtime: Any, text: Any, capacity: int) -> int: ...
    def quoit_worker_create(self, runtime: Any, options: Any, out: Any) -> int: ...
    def quoit_worker_destroy(self, worker: Any) -> int: ...
    def quoit_worker_batch(self, worker: Any) -> Any: ...
    def quoit_worker_handle(self, worker: Any) -> int: ...
    def quoit_worker_fd(self, worker: Any) -> int: ...
    def quoit_turn(self, worker: Any, nops: int, timeout_ns: int) -> int: ...
    def quoit_turn_nb(self, worker: Any, nops: int) -> int: ...
    def quoit_submit(self, worker: Any, nops: int) -> int: ...
    def quoit_run(self, worker: Any, on_batch: Any, ctx: Any) -> int: ...
    def quoit_worker_start(self, worker: Any, on_batch: Any, ctx: Any) -> int: ...
    def quoit_worker_join(self, worker: Any) -> int: ...
    def quoit_stop(self, worker: int) -> int: ...
    def quoit_drain(self, worker: int, grace_ns: int) -> int: ...
    def quoit_drain_on_signals(self, runtime: Any, signals: int, grace_ns: int) -> int: ...
    def quoit_post(self, worker: int, ops: Any, n: int) -> int: ...
    def quoit_socket_get(self, worker: Any, handle: int, option: int, out: Any) -> int: ...
    def quoit_inherited_fds(self, first: Any, names: Any, capacity: int) -> int: ...
    def quoit_stats_read(self, worker: int, out: Any) -> int: ...
    def quoit_stats_text(self, worker: int, text: Any, capacity: int) -> int: ...
    def quoit_now(self, clock: int) -> int: ...
    def quoit_py_turn(self, worker: Any, batch: Any, nops: int, timeout_ns: int, wake: int) -> int: ...

lib: _Lib
