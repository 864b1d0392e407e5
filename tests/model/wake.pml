/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How other threads and the kernel reach a worker: the mailbox and its `sleeping` flag (runtime/core/turn.c, mailbox.c, post.c), an enter that
 * waits and its wakes (runtime/driver/uring_enter.c), and the descriptor for a foreign loop (runtime/driver/uring_host.c). Names are
 * those of the C code; each access to memory that two threads share is a step of its own.
 *
 * Two senders post, the kernel completes requests, a third thread may stop or nudge the worker, at any moment. The worker is
 *   PARKED        quoit_run: it sleeps in the ring
 *   LEVEL         a loop turns it when its descriptor is readable
 *   EDGE          the same with EPOLLET: once for each edge, and only if the descriptor is readable when the loop looks
 *   NETPOLL       Go: edges before a call are forgotten, the call turns, and only if that told nothing waits for an edge
 *   MIXED         LEVEL, but now and then the program lets a turn sleep
 * on a ring with (DEFER) or without deferred task work. The descriptor is asked for before or after the first turn.
 *
 * What is checked: a message is opened once, in its sender's order (assertions in open_mailbox); when nothing can move any more,
 * all that was accepted or completed has been told and a stop has ended in DRAINED (the monitor); and nothing goes round for ever (the
 * same model without the monitor, searched for cycles). Together: whatever is posted or completes is told at last.
 *
 * Stores that are not sequentially consistent go through a store buffer of the worker: they become visible at some later
 * moment, at the latest before the next store of that kind, fence or read-modify-write.
 *
 * FAULT_* each break one thing, and the runner asserts that it is found. SAME_* change something that must not matter.
 */
#ifndef POSTS
#define POSTS 2 /* of the first sender; the second posts one */
#endif
#ifndef COMPLETIONS
#define COMPLETIONS 2
#endif
#ifndef EVENTS_MAX
#define EVENTS_MAX 1
#endif
#define LETTERS (POSTS + 1)

#if defined(LEVEL) || defined(EDGE) || defined(NETPOLL) || defined(MIXED)
#define HOSTED 1
#endif

/* What the threads share. */
bool sleeping = 1;  /* qt_worker.sleeping: raised when the worker is made */
bool stop;          /* qt_worker.stop */
bool nudged;        /* qt_worker.nudged */
byte box[LETTERS];  /* qt_mailbox, oldest first; a letter is its sender's number in the high bit, its own in the rest */
byte box_count;
bool box_closed;
bool ring_enabled;  /* the ring */
bool waiting;       /* qt_uring.waiting */
bool woken_since_enter; /* driver.wakes != wakes_seen */
bool woken_since_begin; /* driver.wakes != host_wakes */
bool has_wakes;         /* driver.wakes > 0 */
bool has_signal;        /* signal_fd >= 0: the ring signals it and the host polls it */
bool readable;          /* that descriptor's counter */
bool edge;              /* it has been written since the host last looked */
bool silent;            /* IORING_CQ_EVENTFD_DISABLED */

/* The ring. */
byte cq;          /* completions of requests to read */
bool cq_wake;     /* and that of the read on wake_fd */
byte deferred;    /* task work that an enter must run */
bool deferred_wake;
bool taskrun;     /* IORING_SQ_TASKRUN */
bool wake_fd;     /* its counter */
bool wake_reads;  /* the kernel has the read on it */

/*
 * Each process is one atomic sequence that may be left only at STEP, before it touches what others see: so a state is never spent on
 * what is a thread's own.
 */
chan go = [0] of { bit };
#define STEP go?_

/* The store buffer: one store that nobody else sees yet. */
mtype = { NOTHING, SILENT, AUDIBLE, ASLEEP, WAITING };
mtype buffered = NOTHING;

/* What happened, for the assertions. */
byte accepted, completed, told;
byte threads_over;
bool worker_over;

inline drain_buffer() {
    if
    :: buffered == SILENT -> silent = 1
    :: buffered == AUDIBLE -> silent = 0
    :: buffered == ASLEEP -> sleeping = 1
    :: buffered == WAITING -> waiting = 1
    :: else
    fi;
    buffered = NOTHING
}

/* A plain store: seen by others later. A second one waits for the first. */
inline plain_store(what) {
    STEP;
    d_step { drain_buffer(); buffered = what }
}

inline fence() {
    STEP;
    d_step { drain_buffer() }
}

/* write(2) to the descriptor that the host polls */
inline signal_host() {
    STEP;
    d_step { readable = 1; edge = 1 }
}

/* io_eventfd_signal */
inline ring_signals() {
    STEP;
    if
    :: has_signal && !silent -> d_step { readable = 1; edge = 1 }
    :: else
    fi
}

/* Task work for the worker: with DEFER_TASKRUN only the first in an empty list raises the flag and signals. */
inline add_work(of_wake) {
    STEP;
#ifdef DEFER
    d_step {
        first = (deferred == 0 && !deferred_wake);
        if
        :: of_wake -> deferred_wake = 1
        :: else -> deferred++
        fi
    };
    if
    :: first -> STEP; taskrun = 1; ring_signals()
    :: else
    fi
#else
    d_step {
        if
        :: of_wake -> cq_wake = 1; wake_fd = 0
        :: else -> cq++
        fi
    };
    ring_signals()
#endif
}

/* qt_uring_wake. The read that the kernel holds on wake_fd completes once. */
inline driver_wake() {
#ifndef FAULT_WAKE_UNCOUNTED
    STEP;
    d_step { woken_since_enter = 1; woken_since_begin = 1; has_wakes = 1 };
#endif
    STEP;
    if
    :: waiting ->
        STEP;
        d_step { wake_fd = 1; due = wake_reads; wake_reads = 0 };
        if
        :: due -> add_work(1)
        :: else
        fi
    :: else ->
        STEP;
        if
        :: has_signal -> signal_host()
        :: else
        fi
    fi
}

/* qt_wake */
inline wake_worker() {
    STEP;
    d_step { was = sleeping; sleeping = 0 };
    if
    :: was -> driver_wake()
    :: else
    fi
}

/* send_message, quoit_post */
proctype sender(bit me; byte posts) {
    byte mine;
    bool was, due, first, ok;
    atomic {
    do
    :: mine < posts ->
        STEP;
        if
        :: stop -> break
        :: else
        fi;
        STEP;
        d_step {
            ok = !box_closed;
            if
            :: ok -> box[box_count] = (me << 7) | mine; box_count++; accepted++
            :: else
            fi
        };
        if
        :: !ok -> break
        :: else
        fi;
        mine++;
        wake_worker()
    :: else -> break
    od;
    was = 0; due = 0; first = 0; ok = 0; mine = 0;
    threads_over++
    }
}

/* quoit_stop, or nobody who calls it */
proctype stopper() {
    bool was, due, first;
    atomic {
    STEP;
    stop = 1;
    wake_worker();
    was = 0; due = 0; first = 0;
    threads_over++
    }
}

/* quoit_post without ops */
proctype nudger() {
    bool was, due, first;
    atomic {
    STEP;
    nudged = 1;
    wake_worker();
    was = 0; due = 0; first = 0;
    threads_over++
    }
}

proctype kernel() {
    byte left_to_do = COMPLETIONS;
    bool first;
    atomic {
    ring_enabled;
    do
    :: left_to_do > 0 ->
        d_step { left_to_do--; completed++ };
        add_work(0)
    :: else -> break
    od;
    first = 0
    }
}

proctype scheduler() {
    do
    :: go!0
    :: d_step { buffered != NOTHING -> drain_buffer() }
    od
}

/* __io_run_local_work, in the worker's system call */
inline run_deferred() {
    STEP;
    d_step {
        taskrun = 0;
        had = (deferred > 0 || deferred_wake);
        cq = cq + deferred;
        deferred = 0;
        if
        :: deferred_wake -> deferred_wake = 0; cq_wake = 1; wake_fd = 0
        :: else
        fi
    };
    if
    :: had -> ring_signals()
    :: else
    fi;
    had = 0
}

/* qt_uring_submit_waiting with the call that submits: the read on wake_fd; it completes at once when that has been written. */
inline arm_wake() {
    if
    :: !wake_armed ->
        STEP;
        d_step {
            wake_armed = 1;
            had = wake_fd;
            if
            :: wake_fd -> cq_wake = 1; wake_fd = 0
            :: else -> wake_reads = 1
            fi
        };
        if
        :: had -> ring_signals()
        :: else
        fi;
        had = 0
    :: else
    fi
}

/* submit_only: with deferred task work it asks for events, else only when the ring says that there are some */
inline submit_only() {
#ifdef DEFER
    STEP;
    if
    :: !wake_armed || taskrun -> arm_wake(); run_deferred()
    :: else
    fi
#else
    arm_wake()
#endif
}

inline look_for_wakes() {
    STEP;
    woken = woken_since_enter
}

/* submit_and_wait */
inline submit_and_wait() {
#ifdef FAULT_WAITING_LATE
    look_for_wakes();
    fence(); STEP; waiting = 1;
#else
#ifdef FAULT_WAITING_PLAIN
    plain_store(WAITING);
#else
    STEP;
    d_step { drain_buffer(); waiting = 1 };
#endif
    look_for_wakes();
#endif
    if
    :: woken -> submit_only()
    :: else ->
        arm_wake();
        (cq > 0 || cq_wake || deferred > 0 || deferred_wake);
        run_deferred()
    fi;
    STEP;
    d_step { drain_buffer(); waiting = 0 };
    STEP;
    woken_since_enter = 0;
    woken = 0
}

/* qt_uring_enter */
inline driver_enter(wait) {
    STEP;
    if
    :: !wait || cq > 0 || cq_wake -> submit_only()
    :: else -> submit_and_wait()
    fi
}

inline mailbox_shut() {
    STEP;
#ifdef FAULT_SHUT
    shut = (box_count == 0)
#else
    d_step {
        if
        :: box_count == 0 -> box_closed = 1
        :: else
        fi;
        shut = box_closed
    }
#endif
}

#define all_told (draining && seen == COMPLETIONS && queue == 0)

/* drained() of turn.c */
inline is_drained() {
    shut = 0;
    if
    :: all_told && nevents == 0 -> mailbox_shut()
    :: else
    fi
}

inline others_ask() {
    STEP;
    if
    :: box_count > 0 && !box_closed -> asked = 1
    :: else -> STEP; asked = (stop != draining)
    fi;
#if defined(NUDGE) && !defined(FAULT_NUDGE_UNSEEN)
    if
    :: !asked -> STEP; asked = nudged
    :: else
    fi
#endif
}

/* take_nudge() of turn.c */
inline take_nudge() {
    STEP;
    if
    :: nudged -> STEP; d_step { drain_buffer(); nudged = 0; asked = 1 }
    :: else
    fi
}

inline raise_sleeping() {
#ifdef FAULT_SLEEPING_PLAIN
    plain_store(ASLEEP)
#else
    STEP;
    d_step { drain_buffer(); sleeping = 1 }
#endif
}

/* enter() of turn.c */
inline enter() {
    may_wait = blocking && nevents == 0 && queue == 0;
    if
    :: may_wait && draining -> is_drained(); may_wait = !shut; shut = 0
    :: else
    fi;
    if
    :: !may_wait -> driver_enter(0)
    :: else ->
#ifdef FAULT_SLEEPING_LATE
        others_ask();
        raise_sleeping();
#else
        raise_sleeping();
        others_ask();
#endif
        d_step { may_wait = !asked; asked = 0 };
        driver_enter(may_wait);
#ifndef HOSTED
        STEP;
        d_step { drain_buffer(); sleeping = 0 };
#else
        if
        :: !has_signal -> STEP; d_step { drain_buffer(); sleeping = 0 }
        :: else
        fi
#endif
    fi;
    may_wait = 0
}

inline new_event() {
    if
    :: queue == 0 && nevents < EVENTS_MAX -> nevents++
    :: else -> queue++
    fi
}

inline open_letters(count) {
    do
    :: at < count ->
#ifdef FAULT_NEWEST_FIRST
        letter = box[count - 1 - at];
#else
        letter = box[at];
#endif
        assert((letter & 127) == next_letter[letter >> 7]);
        next_letter[letter >> 7]++;
        new_event();
        at++
    :: else -> break
    od;
    at = 0; letter = 0
}

inline empty_box() {
    do
    :: box_count > 0 -> box[box_count - 1] = 0; box_count--
    :: else -> break
    od;
    skip
}

/* qt_mailbox_open, then what quoit_stop asked */
inline open_mailbox() {
    STEP;
    if
    :: box_count == 0
    :: else ->
        STEP;
#ifdef FAULT_TAKE_IN_TWO
        d_step { open_letters(box_count) };
        STEP;
        d_step { empty_box() }
#else
        d_step { drain_buffer(); open_letters(box_count); empty_box() }
#endif
    fi;
    STEP;
    if
    :: stop -> draining = 1
    :: else
    fi
}

inline events_move() {
    d_step {
        do
        :: queue > 0 && nevents < EVENTS_MAX -> queue--; nevents++
        :: else -> break
        od;
        skip
    }
}

inline take_wake() {
    d_step { cq_wake -> cq_wake = 0; wake_armed = 0 }
}

/* Where the wake's completion stands between the others is open. */
inline driver_harvest() {
    STEP;
    do
    :: nevents < EVENTS_MAX && cq > 0 -> d_step { cq--; seen++; nevents++ }
    :: nevents < EVENTS_MAX && cq_wake -> take_wake()
    :: nevents >= EVENTS_MAX || (cq == 0 && !cq_wake) -> break
    od
}

inline harvest() {
    if
    :: nevents < EVENTS_MAX && queue == 0 -> driver_harvest()
    :: else
    fi;
    open_mailbox()
}

/* qt_uring_pending; what is not read from the queue yet needs no system call to be seen. */
inline look_pending() {
    STEP;
    if
    :: cq > 0 || cq_wake -> pending = 1
    :: else ->
#ifdef FAULT_NO_TASKRUN
        pending = 0
#else
        STEP;
        pending = taskrun
#endif
    fi
}

inline host_begin() {
    STEP;
    woken_since_begin = 0;
    plain_store(SILENT)
}

inline clear_host_fd() {
    if
    :: !again ->
        STEP;
#ifndef FAULT_NO_CLEAR
        readable = 0
#endif
    :: else
    fi
}

/* qt_uring_host_end */
inline host_end() {
    again = left;
    if
    :: !again -> arm_wake(); look_pending(); again = pending
    :: else
    fi;
#ifdef SAME_ENABLE_FIRST
    plain_store(AUDIBLE); fence();
    clear_host_fd();
#else
#ifndef FAULT_CLEAR_LAST
    clear_host_fd();
#endif
    plain_store(AUDIBLE);
#ifndef FAULT_NO_FENCE
    fence();
#endif
#endif
    woken = 0; pending = 0;
#ifndef FAULT_NO_RECHECK
#ifndef FAULT_NO_RECHECK_WAKES
    STEP;
    woken = woken_since_begin;
#endif
#ifndef FAULT_NO_RECHECK_RING
    look_pending();
#endif
#endif
    if
    :: again || woken || pending -> signal_host()
    :: else
#ifdef FAULT_CLEAR_LAST
        ->
        STEP;
        readable = 0
#endif
    fi;
    again = 0; woken = 0; pending = 0
}

inline deliver() {
    left = queue > 0 || (all_told && nevents > 0);
#ifdef HOSTED
    if
    :: has_signal ->
#ifdef FAULT_HOST_SLEEPING_LATE
        others_ask();
        raise_sleeping();
#else
        raise_sleeping();
        others_ask();
#endif
        d_step { left = left || asked; asked = 0 };
#ifdef FAULT_LEFT_UNTOLD
        left = 0;
#endif
        host_end()
    :: else
    fi;
#endif
    left = left || queue > 0;
    if
    :: !left && nevents == EVENTS_MAX -> look_pending(); left = pending; pending = 0
    :: else
    fi;
    is_drained();
    d_step { drained = shut; shut = 0; told = told + nevents }
}

/* qt_uring_host_fd */
inline get_host_fd() {
    STEP;
    d_step { drain_buffer(); has_signal = 1 };
#ifndef FAULT_HOST_LATE
    STEP;
    if
    :: ring_enabled || has_wakes -> signal_host()
    :: else
    fi
#endif
}

proctype worker() {
    bool wake_armed, draining, drained, left;
    byte queue, nevents, seen;
    byte next_letter[2];
    bool blocking, may_wait, asked, woken, had, shut, again, pending;
    byte at, letter;
    bool first_turn;

    atomic {
    first_turn = 1;

next_turn:
#ifdef HOSTED
    /* The host: when it turns. */
    if
    :: first_turn && !has_signal && !ring_enabled -> goto turn /* the descriptor is asked for after a turn */
    :: !has_signal -> get_host_fd(); goto turn_or_wait
    :: else
    fi;
#ifdef MIXED
    if
    :: blocking = 1; goto turn
    :: skip
    fi;
#endif
#ifdef NETPOLL
    if
    :: left || nevents > 0 -> edge = 0; goto turn
    :: else
    fi;
#endif
    goto wait;

turn_or_wait:
    if
    :: first_turn && !ring_enabled -> edge = 0; goto turn
    :: skip
    fi;
wait:
#if defined(EDGE) || defined(NETPOLL)
    do
    :: d_step { edge -> edge = 0 };
        if
        :: readable -> break
        :: else
        fi
    od;
#else
    readable;
#endif
#else
    blocking = 1;
#endif

turn:
    /* qt_turn */
    first_turn = 0;
    ring_enabled = 1;
    left = 0;
#ifndef SAME_FLAG_AFTER_MAILBOX
    STEP;
    d_step { drain_buffer(); sleeping = 0 };
#endif
    nevents = 0;
    events_move();
    open_mailbox();
#ifdef SAME_FLAG_AFTER_MAILBOX
    STEP;
    d_step { drain_buffer(); sleeping = 0 };
#endif
    do
    :: enter();
        if
        :: has_signal -> host_begin()
        :: else
        fi;
        harvest();
        events_move();
#ifdef NUDGE
        take_nudge();
#endif
        is_drained();
        if
        :: nevents > 0 || shut || asked || !blocking -> break
        :: else
        fi
    od;
    shut = 0; asked = 0;
    deliver();
    blocking = 0;
    if
    :: !drained -> goto next_turn
    :: else
    fi;
    worker_over = 1
    }
}

/* Nothing can move any more: then nothing may be left. */
proctype monitor() {
    timeout;
#if defined(STOP) || defined(NUDGE)
    assert(threads_over == 3);
#else
    assert(threads_over == 2);
#endif
    assert(!nudged || worker_over);
    assert(told == accepted + completed && box_count == 0);
    assert(!ring_enabled || completed == COMPLETIONS);
    assert(!stop || worker_over)
}

init {
    atomic {
        run worker();
        run sender(0, POSTS);
        run sender(1, 1);
#ifdef STOP
        run stopper();
#endif
#ifdef NUDGE
        run nudger();
#endif
        run kernel();
        run scheduler();
#ifndef CYCLES
        run monitor()
#endif
    }
}
