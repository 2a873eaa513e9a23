/* The lifecycle of an operation, with two callers, one queue, one attempt at a time, and actions that are carried out late:
 * every interleaving. What an event does comes from lifecycle.h, which the tests make from the code's own function.
 *
 *   QUEUED   1: a queue starts the operation when it has a slot for it; 0: callers start it themselves
 *   STEPS    how often each of the two callers does something
 *   RETRIES  how often the work fails and may be tried again
 *   HELD     1: a pause holds what was sent instead of ending it, as it must not be sent twice
 */
#include "lifecycle.h"
c_decl { \#include "tables.h" }

#ifndef QUEUED
#define QUEUED 1
#endif
#ifndef STEPS
#define STEPS 3
#endif
#ifndef RETRIES
#define RETRIES 1
#endif
#ifndef HELD
#define HELD 0
#endif

/* What the attempt in the slot is doing. */
#define NONE 0
#define PREPARING 1
#define CALLING 2
#define CONNECTED 3
#define CANCELLED 4
#define PROCESSING 5
#define COMMITTING 6
#define HOLDING 7

/* Its phase, as the operation sees it. */
#define ENDED 0
#define PREPARED 1
#define TRANSFERS 2
#define SERIALIZES 3

short life = LIFE_INITIAL;
byte event, action, kind, attemptOfAction;
/* What the lifecycle says, copied from the tables. */
byte state = STATE_READY, ending, outcome, attempt, lifeWork, startable, backingOff, wantsEnd;
/* How often each action is still to be carried out. */
byte pending[ACTION_COUNT], pendingCount;
byte work, phase, number, slot, callers = 2, retries, called;
byte finishes, entered = 1, left, stored, isSent, sent;
/* Whether code of the user's never returns. */
byte hangs;
bool wasCancelled;

inline handle(e) {
    d_step {
        event = e;
        c_code {
            now.action = life_action[now.life][now.event];
            now.life = life_next[now.life][now.event];
        };
        assert(life >= 0);
        c_code {
            now.state = life_state[now.life];
            now.ending = life_ending[now.life];
            now.outcome = life_outcome[now.life];
            now.attempt = life_attempt[now.life];
            now.lifeWork = life_work[now.life];
            now.startable = life_startable[now.life];
            now.backingOff = life_backing_off[now.life];
            now.wantsEnd = life_wants_end[now.life];
        };
        if
        :: action != ACTION_NOTHING ->
            assert(pending[action] < 9);
            pending[action]++;
            pendingCount++
        :: else
        fi;
        printf("lifecycle: event %d, action %d, state %d\n", event, action, state);
        event = 0;
        action = 0
    }
}

/* A caller, on any thread. */
proctype Caller() {
    byte step = 0;
    do
    :: step < STEPS ->
        atomic {
            step++;
            if
            :: !HELD -> handle(EVENT_PAUSE)
            :: HELD -> handle(EVENT_HOLD)
            :: handle(EVENT_RESUME)
            :: handle(EVENT_CANCEL); wasCancelled = true
            :: handle(EVENT_EXPIRE)
            :: !QUEUED -> handle(EVENT_START)
            fi
        }
    :: step >= STEPS -> break
    od;
    callers--
}

/* Resumes what is paused once the callers are gone, and starts it. */
active proctype Closer() {
    do
    :: atomic { callers == 0 && state == STATE_PAUSED -> handle(EVENT_RESUME) }
    :: atomic { callers == 0 && !QUEUED && startable && state == STATE_READY && slot == 0 -> handle(EVENT_START) }
    :: atomic { backingOff -> handle(EVENT_RETRY_DUE + attempt) }
    od
}

/* Starts the operation when it is ready and there is a slot. */
active proctype Queue() {
    do
    :: atomic { QUEUED && startable && state == STATE_READY && slot == 0 -> slot = 1; handle(EVENT_START) }
    od
}

#define isGoingOn (attempt == number && lifeWork == WORK_RUNNING)
#define isStopping (attempt == number && lifeWork == WORK_STOPPING || isGoingOn && state != STATE_EXECUTING)

/* Carries out one of the actions that are due, in any order. */
active proctype Performer() {
    byte chosen = 1, seen = 0;
end:
    do
    :: atomic {
        pendingCount > 0 ->
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
        action = chosen;
        c_code {
            now.kind = action_kind[now.action];
            now.attemptOfAction = action_attempt[now.action];
        };
        action = 0;
        chosen = 1;
        if
        :: kind == KIND_BEGIN ->
            /* Promise 5: no attempt begins before the one before has ended. */
            assert(work == NONE);
            phase = PREPARED;
            number = attemptOfAction;
            called = 0;
            work = PREPARING
        :: kind == KIND_STOP || kind == KIND_STOP_AND_FREE_SLOT ->
            if
            :: kind == KIND_STOP_AND_FREE_SLOT -> slot = 0
            :: else
            fi;
            if
            :: attemptOfAction == number && phase == TRANSFERS -> work = CANCELLED
            :: attemptOfAction == number && ending && ((phase == PREPARED && work == CALLING) || phase == SERIALIZES) ->
                phase = ENDED;
                work = NONE;
                handle(EVENT_WORK_STOPPED + number)
            :: else
            fi
        :: kind == KIND_HOLD_AND_FREE_SLOT || kind == KIND_RELEASE ->
            if
            :: kind == KIND_HOLD_AND_FREE_SLOT -> slot = 0
            :: else
            fi;
            if
            :: attemptOfAction == number && (work == CONNECTED || work == HOLDING) && isGoingOn ->
                if
                :: state == STATE_EXECUTING -> work = CONNECTED
                :: state != STATE_EXECUTING && isSent -> work = HOLDING
                :: state != STATE_EXECUTING && !isSent -> phase = ENDED; work = NONE; handle(EVENT_WORK_STOPPED + number)
                fi
            :: else
            fi
        :: kind == KIND_RESTART ->
            if
            :: !QUEUED -> handle(EVENT_START)
            :: else
            fi
        :: kind == KIND_FINISH ->
            finishes++;
            left++;
            slot = 0;
            /* Promise 1. */
            assert(finishes == 1);
            /* Promise 3: an outcome is stored before it is posted. */
            assert(!outcome || stored)
        :: kind == KIND_COMMIT ->
            assert(work == NONE);
            if
            :: attempt == attemptOfAction && lifeWork == WORK_COMMITTING -> work = COMMITTING
            :: else
            fi
        :: kind == KIND_AWAIT_COMMIT -> handle(EVENT_COMMIT_TAKES_TOO_LONG + attemptOfAction)
        :: kind == KIND_SLOT_FREED || kind == KIND_AWAIT_RETRY -> slot = 0
        :: kind == KIND_READINESS
        fi;
        kind = 0;
        attemptOfAction = 0
    }
    od
}

/* The attempt: its preparation, its transfer, its serializer. */
active proctype Attempt() {
end:
    do
    :: atomic { work == PREPARING && !isStopping -> phase = TRANSFERS; work = CONNECTED; isSent = 0 }
    :: atomic {
        HELD && work == CONNECTED && !isSent ->
        isSent = 1;
        sent++;
        /* Promise 5: only a retry sends it again. */
        assert(sent <= 1 + retries)
    }
    :: atomic { work == PREPARING && !isStopping && !called -> called = 1; work = CALLING }
    :: atomic { work == PREPARING && isStopping -> phase = ENDED; work = NONE; handle(EVENT_WORK_STOPPED + number) }
    :: atomic { work == CALLING && !hangs -> work = PREPARING }
    :: atomic {
        work == CONNECTED ->
        if
        :: ending -> phase = ENDED; work = NONE; handle(EVENT_WORK_STOPPED + number)
        :: else -> phase = SERIALIZES; work = PROCESSING
        fi
    }
    :: atomic { work == CONNECTED -> phase = ENDED; work = NONE; stored = 1; handle(EVENT_WORK_COMPLETED + number) }
    :: atomic { work == CONNECTED -> phase = ENDED; work = NONE; handle(EVENT_WORK_CAN_COMMIT + number) }
    :: atomic {
        work == CONNECTED && retries < RETRIES ->
        retries++;
        phase = ENDED;
        work = NONE;
        if
        :: handle(EVENT_WORK_WILL_RETRY + number)
        :: handle(EVENT_WORK_STOPPED + number)
        fi
    }
    /* The connection is lost while it is held. */
    :: atomic { work == HOLDING -> phase = ENDED; work = NONE; stored = 1; handle(EVENT_WORK_COMPLETED + number) }
    :: atomic { work == CANCELLED -> phase = ENDED; work = NONE; handle(EVENT_WORK_STOPPED + number) }
    :: atomic { work == PROCESSING && !hangs -> phase = ENDED; work = NONE; stored = 1; handle(EVENT_WORK_COMPLETED + number) }
    :: atomic { work == COMMITTING && !hangs -> work = NONE; stored = 1; handle(EVENT_WORK_COMPLETED + number) }
    od
}

init {
    atomic {
        if
        :: hangs = 0
        :: hangs = 1
        fi;
        run Caller();
        run Caller()
    }
}

/* 1: it ends, if the code of the user's returns. */
ltl ends { <> (finishes == 1 || hangs) }
/* 2: what is cancelled or has expired ends, whether or not that code returns. */
ltl cancels { [] (wantsEnd -> <> (finishes == 1)) }
/* 4: finished is final. */
ltl final { [] ((state == STATE_FINISHED) -> [] (state == STATE_FINISHED)) }
/* 6: what runs in a queue has the slot, and gives it back. */
ltl slots { [] (QUEUED && state == STATE_EXECUTING -> slot == 1) && [] ((finishes == 1) -> <> (slot == 0)) }
/* 7: a completion group is left as often as it was entered. */
ltl groups { [] (left <= entered) && <> (left == entered || hangs) }
/* 8: after its end no attempt is left that is not held by code of the user's. */
ltl releases { [] ((finishes == 1) -> <> (work == NONE || hangs)) }
