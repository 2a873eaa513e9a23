/* The state of a transfer, with a source that it pauses, a receiver, two that hold it up, a body that has to be sent, and
 * perhaps a stop. Actions are carried out late. What an event does comes from transfer.h, which the tests make from the
 * code's own function. */
#include "transfer.h"
c_decl { \#include "tables.h" }

#ifndef BYTES
#define BYTES 2
#endif
#ifndef HOLDS
#define HOLDS 2
#endif
/* 1: a pause and one other hold; 0: three holds. */
#ifndef PAUSES
#define PAUSES 0
#endif

short transfer = 0;
byte event, action, kind, receives, sends;
byte free = 1, hasKept, over, paused;
byte pending[ACTION_COUNT], pendingCount;
/* The source: bytes that have not come yet, and its two directions. */
byte left = BYTES, sent, isReceivingPaused, isSendingPaused, hasEnded;
/* The receiver. */
byte kept, delivered;
byte ended, stopped, chosen, seen;

inline handle(e) {
    d_step {
        event = e;
        c_code {
            now.action = transfer_action[now.transfer][now.event];
            now.transfer = transfer_next[now.transfer][now.event];
            now.free = transfer_free[now.transfer];
            now.hasKept = transfer_kept[now.transfer];
            now.over = transfer_over[now.transfer];
            now.paused = transfer_paused[now.transfer];
        };
        if
        :: action != 0 ->
            assert(pending[action] < 9);
            pending[action]++;
            pendingCount++
        :: else
        fi;
        printf("transfer: event %d, action %d, over %d\n", event, action, over);
        event = 0;
        action = 0
    }
}

/* What feeds the transfer: libcurl, or a connection. */
active proctype Source() {
end:
    do
    :: atomic {
        left > 0 && !isReceivingPaused && !over ->
        if
        :: !free || hasKept -> isReceivingPaused = 1; handle(EVENT_REFUSED)
        :: free && !hasKept ->
            left--;
            if
            :: delivered++
            /* The receiver could not take them. */
            :: kept++; handle(EVENT_KEPT)
            fi
        fi
    }
    :: atomic { left == 0 && !hasEnded && sent == 2 && !over -> hasEnded = 1; handle(EVENT_END) }
    :: atomic { sent < 2 && !isSendingPaused && !over && paused -> isSendingPaused = 1 }
    :: atomic { sent == 0 && !isSendingPaused && !over && !paused -> sent = 1; isSendingPaused = 1; handle(EVENT_STARVED) }
    :: atomic { sent == 1 && !isSendingPaused && !over && !paused -> sent = 2 }
    od
}

/* Makes what is to be sent. */
active proctype Body() {
    atomic { sent == 1 || over -> handle(EVENT_FED) }
}

proctype Holder(byte which) {
    byte count = 0;
    do
    :: count < HOLDS ->
        if
        :: which == 0 -> handle(EVENT_HOLD_SINK)
        :: which == 1 -> handle(EVENT_HOLD_READER)
        :: which == 2 -> handle(EVENT_HOLD_DECISION)
        fi;
        if
        :: which == 0 -> handle(EVENT_LIFT_SINK)
        :: which == 1 -> handle(EVENT_LIFT_READER)
        :: which == 2 -> handle(EVENT_LIFT_DECISION)
        fi;
        count++
    :: count >= HOLDS -> break
    od
}

/* A pause, which stops both directions of the source. */
proctype Pauser() {
    atomic {
        handle(EVENT_HOLD_PAUSE);
        isReceivingPaused = 1;
        isSendingPaused = 1
    }
    atomic {
        handle(EVENT_LIFT_PAUSE);
        if
        :: hasKept -> handle(EVENT_KEPT)
        :: else
        fi
    }
}

active proctype Stopper() {
    if
    :: stopped = 1; handle(EVENT_STOP)
    :: skip
    fi
}

active proctype Performer() {
end:
    do
    :: atomic {
        pendingCount > 0 ->
        chosen = 1;
        do
        :: pending[chosen] == 0 -> chosen++
        :: pending[chosen] > 0 ->
            seen = seen + pending[chosen];
            if
            :: break
            /* There are others. */
            :: seen < pendingCount -> chosen++
            fi
        od;
        seen = 0;
        pending[chosen]--;
        pendingCount--;
        c_code {
            now.kind = action_kind[now.chosen];
            now.receives = action_receives[now.chosen];
            now.sends = action_sends[now.chosen];
        };
        chosen = 0;
        if
        :: kind == KIND_RUN ->
            if
            :: receives -> isReceivingPaused = 0
            :: else
            fi;
            if
            :: sends -> isSendingPaused = 0
            :: else
            fi
        :: kind == KIND_DRAIN ->
            if
            /* Passes on what was kept, unless there is a hold by now. */
            :: kept > 0 && free && !over -> delivered = delivered + kept; kept = 0; handle(EVENT_DRAINED)
            :: else
            fi
        :: kind == KIND_END ->
            ended++;
            /* Nothing is lost, and nothing comes twice. */
            assert(kept == 0 && delivered == BYTES && hasEnded)
        :: kind == KIND_STOPPED -> ended++
        fi;
        kind = 0;
        receives = 0;
        sends = 0
    }
    od
}

init {
    atomic {
#if PAUSES
        run Pauser();
        run Holder(1)
#else
        run Holder(0);
        run Holder(1);
        run Holder(2)
#endif
    }
}

/* However it is held up, it ends. */
ltl ends { <> (ended == 1) }
/* It ends once. */
ltl once { [] (ended <= 1) }
/* A stop waits for none of the holds. */
ltl stops { [] (stopped -> <> over) }
