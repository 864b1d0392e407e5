// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

// #include "bridge.h"
import "C"

// Opcodes (Op.Opcode), and the kinds of the events that answer them.
const (
	OpNop         uint32 = C.QUOIT_OP_NOP
	OpListen      uint32 = C.QUOIT_OP_LISTEN
	OpAccept      uint32 = C.QUOIT_OP_ACCEPT
	OpConnect     uint32 = C.QUOIT_OP_CONNECT
	OpRecv        uint32 = C.QUOIT_OP_RECV
	OpRecvPause   uint32 = C.QUOIT_OP_RECV_PAUSE
	OpRecvResume  uint32 = C.QUOIT_OP_RECV_RESUME
	OpSend        uint32 = C.QUOIT_OP_SEND
	OpSendv       uint32 = C.QUOIT_OP_SENDV
	OpShutdown    uint32 = C.QUOIT_OP_SHUTDOWN
	OpClose       uint32 = C.QUOIT_OP_CLOSE
	OpCancel      uint32 = C.QUOIT_OP_CANCEL
	OpTimer       uint32 = C.QUOIT_OP_TIMER
	OpPost        uint32 = C.QUOIT_OP_POST
	OpPoll        uint32 = C.QUOIT_OP_POLL
	OpOpen        uint32 = C.QUOIT_OP_OPEN
	OpRead        uint32 = C.QUOIT_OP_READ
	OpWrite       uint32 = C.QUOIT_OP_WRITE
	OpFsync       uint32 = C.QUOIT_OP_FSYNC
	OpOffload     uint32 = C.QUOIT_OP_OFFLOAD
	OpKeep        uint32 = C.QUOIT_OP_KEEP
	OpRelease     uint32 = C.QUOIT_OP_RELEASE
	OpBind        uint32 = C.QUOIT_OP_BIND
	OpRecvmsg     uint32 = C.QUOIT_OP_RECVMSG
	OpSendmsg     uint32 = C.QUOIT_OP_SENDMSG
	OpMulticast   uint32 = C.QUOIT_OP_MULTICAST
	OpSocketSet   uint32 = C.QUOIT_OP_SOCKET_SET
	OpAdopt       uint32 = C.QUOIT_OP_ADOPT
	OpDetach      uint32 = C.QUOIT_OP_DETACH
	OpSplice      uint32 = C.QUOIT_OP_SPLICE
	OpSendFd      uint32 = C.QUOIT_OP_SEND_FD
	OpRecvFd      uint32 = C.QUOIT_OP_RECV_FD
	OpMove        uint32 = C.QUOIT_OP_MOVE
	OpChannel     uint32 = C.QUOIT_OP_CHANNEL
	OpChannelSend uint32 = C.QUOIT_OP_CHANNEL_SEND
	OpChannelRecv uint32 = C.QUOIT_OP_CHANNEL_RECV
)

// Flags of an op.
const (
	FlagMulti     uint32 = C.QUOIT_OPF_MULTI
	FlagKeep      uint32 = C.QUOIT_OPF_KEEP
	FlagQuiet     uint32 = C.QUOIT_OPF_QUIET
	FlagBorrow    uint32 = C.QUOIT_OPF_BORROW
	FlagIOV       uint32 = C.QUOIT_OPF_IOV
	FlagArenaSend uint32 = C.QUOIT_OPF_ARENA_SEND
	FlagArenaRecv uint32 = C.QUOIT_OPF_ARENA_RECV
	FlagArgs      uint32 = C.QUOIT_OPF_ARGS
	FlagAbs       uint32 = C.QUOIT_OPF_ABS
	FlagAutoRecv  uint32 = C.QUOIT_OPF_AUTO_RECV
	FlagZerocopy  uint32 = C.QUOIT_OPF_ZEROCOPY
	FlagAbort     uint32 = C.QUOIT_OPF_ABORT
	FlagArmed     uint32 = C.QUOIT_OPF_ARMED
)

// Flags of an event.
const (
	EventMore        uint32 = C.QUOIT_EVF_MORE
	EventEOF         uint32 = C.QUOIT_EVF_EOF
	EventLent        uint32 = C.QUOIT_EVF_LENT
	EventKept        uint32 = C.QUOIT_EVF_KEPT
	EventCopied      uint32 = C.QUOIT_EVF_COPIED
	EventTrunc       uint32 = C.QUOIT_EVF_TRUNC
	EventNonempty    uint32 = C.QUOIT_EVF_NONEMPTY
	EventMessage     uint32 = C.QUOIT_EVF_MESSAGE
	EventCredentials uint32 = C.QUOIT_EVF_CREDENTIALS
)

// Kinds of event that answer no op.
const (
	KindBadOp   uint32 = C.QUOIT_KIND_BAD_OP
	KindMessage uint32 = C.QUOIT_KIND_MESSAGE
	KindMoved   uint32 = C.QUOIT_KIND_MOVED
	KindDrain   uint32 = C.QUOIT_KIND_DRAIN
	KindGrease  uint32 = C.QUOIT_KIND_GREASE
)

// Flags of a batch.
const (
	BatchInterrupted uint32 = C.QUOIT_BATCH_INTERRUPTED
	BatchLeft        uint32 = C.QUOIT_BATCH_LEFT
	BatchDrained     uint32 = C.QUOIT_BATCH_DRAINED
)

// Types of handle (Handle.Kind).
const (
	HandleWorker    uint32 = C.QUOIT_HANDLE_WORKER
	HandleListener  uint32 = C.QUOIT_HANDLE_LISTENER
	HandleStream    uint32 = C.QUOIT_HANDLE_STREAM
	HandleFile      uint32 = C.QUOIT_HANDLE_FILE
	HandleDirectory uint32 = C.QUOIT_HANDLE_DIRECTORY
	HandleTimer     uint32 = C.QUOIT_HANDLE_TIMER
	HandlePoll      uint32 = C.QUOIT_HANDLE_POLL
	HandleBuffer    uint32 = C.QUOIT_HANDLE_BUFFER
	HandleDatagram  uint32 = C.QUOIT_HANDLE_DATAGRAM
	HandleChannel   uint32 = C.QUOIT_HANDLE_CHANNEL
)

// Kinds of channel (Op.Arg of OpChannel), and the most messages that one holds.
const (
	ChannelManyToOne uint32 = C.QUOIT_CHANNEL_MANY_TO_ONE
	ChannelOneToOne  uint32 = C.QUOIT_CHANNEL_ONE_TO_ONE
	ChannelOneshot   uint32 = C.QUOIT_CHANNEL_ONESHOT
	ChannelMax       uint32 = C.QUOIT_CHANNEL_MAX
)

// Fields of an op, as an Error names them.
const (
	FieldOpcode   uint32 = C.QUOIT_FIELD_OPCODE
	FieldFlags    uint32 = C.QUOIT_FIELD_FLAGS
	FieldTarget   uint32 = C.QUOIT_FIELD_TARGET
	FieldUserData uint32 = C.QUOIT_FIELD_USER_DATA
	FieldAddr     uint32 = C.QUOIT_FIELD_ADDR
	FieldLen      uint32 = C.QUOIT_FIELD_LEN
	FieldArg      uint32 = C.QUOIT_FIELD_ARG
	FieldOffset   uint32 = C.QUOIT_FIELD_OFFSET
	FieldArg2     uint32 = C.QUOIT_FIELD_ARG2
	FieldTimeout  uint32 = C.QUOIT_FIELD_TIMEOUT
)

// Signals of quoit_drain_on_signals. Go programs use os/signal and Worker.Drain.
const (
	SignalTerm uint32 = C.QUOIT_SIGNAL_TERM
	SignalInt  uint32 = C.QUOIT_SIGNAL_INT
	SignalHup  uint32 = C.QUOIT_SIGNAL_HUP
	SignalQuit uint32 = C.QUOIT_SIGNAL_QUIT
)

// What a library may be built with (HasFeature).
const (
	FeatureURing   uint32 = C.QUOIT_FEATURE_URING
	FeatureEpoll   uint32 = C.QUOIT_FEATURE_EPOLL
	FeatureOffload uint32 = C.QUOIT_FEATURE_OFFLOAD
)

// Families of an Addr.
const (
	FamilyUnix uint16 = C.QUOIT_FAMILY_UNIX
	FamilyV4   uint16 = C.QUOIT_FAMILY_V4
	FamilyV6   uint16 = C.QUOIT_FAMILY_V6
)

// Flags of Worker.Open.
const (
	OpenRead      uint32 = C.QUOIT_OPEN_READ
	OpenWrite     uint32 = C.QUOIT_OPEN_WRITE
	OpenCreate    uint32 = C.QUOIT_OPEN_CREATE
	OpenExclusive uint32 = C.QUOIT_OPEN_EXCLUSIVE
	OpenTruncate  uint32 = C.QUOIT_OPEN_TRUNCATE
	OpenAppend    uint32 = C.QUOIT_OPEN_APPEND
	OpenDirectory uint32 = C.QUOIT_OPEN_DIRECTORY
	OpenNofollow  uint32 = C.QUOIT_OPEN_NOFOLLOW
	OpenSync      uint32 = C.QUOIT_OPEN_SYNC
	OpenDirect    uint32 = C.QUOIT_OPEN_DIRECT
)

// Flags of ListenOptions.
const (
	ListenReuseport   uint32 = C.QUOIT_LISTEN_REUSEPORT
	ListenV6Only      uint32 = C.QUOIT_LISTEN_V6ONLY
	ListenDelay       uint32 = C.QUOIT_LISTEN_DELAY
	ListenUnlink      uint32 = C.QUOIT_LISTEN_UNLINK
	ListenFreebind    uint32 = C.QUOIT_LISTEN_FREEBIND
	ListenDeferAccept uint32 = C.QUOIT_LISTEN_DEFER_ACCEPT
	ListenSeqpacket   uint32 = C.QUOIT_LISTEN_SEQPACKET
)

// Options of a socket (OpSocketSet's Arg).
const (
	SocketNodelay           uint32 = C.QUOIT_SOCKET_NODELAY
	SocketKeepalive         uint32 = C.QUOIT_SOCKET_KEEPALIVE
	SocketKeepaliveIdle     uint32 = C.QUOIT_SOCKET_KEEPALIVE_IDLE
	SocketKeepaliveInterval uint32 = C.QUOIT_SOCKET_KEEPALIVE_INTERVAL
	SocketKeepaliveCount    uint32 = C.QUOIT_SOCKET_KEEPALIVE_COUNT
	SocketLinger            uint32 = C.QUOIT_SOCKET_LINGER
	SocketDeferAccept       uint32 = C.QUOIT_SOCKET_DEFER_ACCEPT
	SocketSendBuffer        uint32 = C.QUOIT_SOCKET_SEND_BUFFER
	SocketRecvBuffer        uint32 = C.QUOIT_SOCKET_RECV_BUFFER
	SocketTOS               uint32 = C.QUOIT_SOCKET_TOS
	SocketIncomingCPU       uint32 = C.QUOIT_SOCKET_INCOMING_CPU
	SocketBusyPoll          uint32 = C.QUOIT_SOCKET_BUSY_POLL
	SocketUserTimeout       uint32 = C.QUOIT_SOCKET_USER_TIMEOUT
	SocketPriority          uint32 = C.QUOIT_SOCKET_PRIORITY
	SocketMark              uint32 = C.QUOIT_SOCKET_MARK
	SocketFreebind          uint32 = C.QUOIT_SOCKET_FREEBIND
	SocketV6Only            uint32 = C.QUOIT_SOCKET_V6ONLY
	SocketReuseport         uint32 = C.QUOIT_SOCKET_REUSEPORT
	SocketCredentials       uint32 = C.QUOIT_SOCKET_CREDENTIALS
)

// Masks of Worker.Poll.
const (
	PollIn    uint32 = C.QUOIT_POLL_IN
	PollOut   uint32 = C.QUOIT_POLL_OUT
	PollErr   uint32 = C.QUOIT_POLL_ERR
	PollHup   uint32 = C.QUOIT_POLL_HUP
	PollRdhup uint32 = C.QUOIT_POLL_RDHUP
	PollPri   uint32 = C.QUOIT_POLL_PRI
)

// Values of an op's Arg.
const (
	SendCork         uint32 = C.QUOIT_SEND_CORK
	ConnectDelay     uint32 = C.QUOIT_CONNECT_DELAY
	ConnectSeqpacket uint32 = C.QUOIT_CONNECT_SEQPACKET
	ShutdownRecv     uint32 = C.QUOIT_SHUTDOWN_RECV
	ShutdownSend     uint32 = C.QUOIT_SHUTDOWN_SEND
	ShutdownBoth     uint32 = C.QUOIT_SHUTDOWN_BOTH
	ClockMonotonic   uint32 = C.QUOIT_CLOCK_MONOTONIC
	ClockBoot        uint32 = C.QUOIT_CLOCK_BOOT
	ClockWall        uint32 = C.QUOIT_CLOCK_WALL
)

// Bounds.
const (
	IOVMax      = C.QUOIT_IOV_MAX
	ReadMax     = C.QUOIT_READ_MAX
	FdsMax      = C.QUOIT_FDS_MAX
	CallArgsMax = C.QUOIT_CALL_ARGS_MAX
)

// Flags of quoit_bind_options, by which OpBind makes a datagram socket.
const (
	BindReuseport  uint32 = C.QUOIT_BIND_REUSEPORT
	BindV6Only     uint32 = C.QUOIT_BIND_V6ONLY
	BindBroadcast  uint32 = C.QUOIT_BIND_BROADCAST
	BindUnlink     uint32 = C.QUOIT_BIND_UNLINK
	BindPacketInfo uint32 = C.QUOIT_BIND_PKTINFO
	BindGRO        uint32 = C.QUOIT_BIND_GRO
)

// What OpMulticast does (Arg), and the most payload bytes that one OpRecvmsg may bring.
const (
	MulticastJoin  uint32 = C.QUOIT_MULTICAST_JOIN
	MulticastLeave uint32 = C.QUOIT_MULTICAST_LEAVE
	DatagramMax    uint32 = C.QUOIT_DATAGRAM_MAX
)
