/* An entry of a shared queue: two workers, one of which may die or stand still at any moment, what takes leases back, and a
 * user. What a change does comes from entry.h, which the tests make from the code's own function. */
#include "entry.h"
c_decl { \#include "tables.h" }

#ifndef STEPS
#define STEPS 2
#endif

short entry = 0;
byte event, accepted;
byte state = STATE_HELD, lease, over, due;
/* How often the request has been sent, and how often the user has asked for it again. */
byte sent, asked, done;
bool isPaused;

inline apply(e) {
    d_step {
        event = e;
        c_code {
            if (entry_next[now.entry][now.event] >= 0) {
                now.accepted = entry_accepted[now.entry][now.event];
                now.entry = entry_next[now.entry][now.event];
                now.state = entry_state[now.entry];
                now.lease = entry_lease[now.entry];
                now.over = entry_over[now.entry];
                now.due = entry_due[now.entry];
            } else {
                now.accepted = 0;
            }
        };
        printf("entry: event %d, accepted %d, state %d, lease %d, sent %d\n", event, accepted, state, lease, sent);
        event = 0
    }
}

/* A worker. The first one may die where it stands; a lease that it has lost does not stop it from reporting. */
proctype Worker(byte number) {
    byte own, mayBegin;
end:
    do
    :: atomic {
        state == STATE_READY && lease < MAXIMUM_LEASE ->
        apply(EVENT_CLAIM + number);
        assert(accepted);
        own = lease
    }
    progress:
        if
        :: number == 0 -> break
        :: atomic { apply(EVENT_RELEASE + own * 2 + number); own = 0 }
        :: skip
        fi;
        if
        :: own > 0 ->
            /* What must not be sent twice says so before. */
            atomic {
                mayBegin = 1;
                if
                :: !SENDS_AGAIN -> apply(EVENT_BEGIN + own); mayBegin = accepted
                :: else
                fi
            };
            if
            /* It has failed before anything was sent: only that is reported as a failure for now. */
            :: mayBegin -> atomic { apply(EVENT_FAIL_FOR_NOW + own * 2 + number); assert(!accepted || lease == own) }
            :: mayBegin ->
                sent++;
                if
                :: number == 0 -> break
                :: SENDS_AGAIN -> atomic { apply(EVENT_FAIL_FOR_NOW + own * 2 + number); assert(!accepted || lease == own) }
                :: atomic { apply(EVENT_SUCCEED + own * 2 + number); done = done + accepted; assert(!accepted || lease == own) }
                :: atomic { apply(EVENT_FAIL_FOR_GOOD + own * 2 + number); assert(!accepted || lease == own) }
                fi
            :: !mayBegin
            fi;
            own = 0
        :: else
        fi;
        mayBegin = 0
    od
}

/* Takes leases back, also of workers that only stand still; starts what is due. */
active proctype Reaper() {
end:
    do
    :: atomic { state == STATE_LEASED -> apply(EVENT_EXPIRE) }
    :: atomic { due -> apply(EVENT_BECOME_DUE) }
    od
}

active proctype Dependency() { apply(EVENT_DEPENDENCY_DONE) }

active proctype User() {
    byte step = 0;
    do
    :: step < STEPS ->
        atomic {
            step++;
            if
            :: apply(EVENT_CANCEL)
            :: apply(EVENT_RETRY); asked = asked + accepted
            :: apply(EVENT_PAUSE)
            :: apply(EVENT_RESUME)
            fi
        }
    :: step >= STEPS -> break
    od;
    do
    :: atomic { state == STATE_PAUSED -> apply(EVENT_RESUME) }
    od
}

init {
    atomic {
        run Worker(0);
        run Worker(1)
    }
}

/* What must not be sent twice is not, unless somebody asks for it. */
ltl unsent { [] (SENDS_AGAIN || sent <= 1 + asked) }
/* Success is final, and comes once. */
ltl final { [] ((state == STATE_DONE) -> [] (state == STATE_DONE)) && [] (done <= 1) }
/* It ends, or every claim that the model makes was used. */
ltl ends { <> (over || lease >= MAXIMUM_LEASE) }
