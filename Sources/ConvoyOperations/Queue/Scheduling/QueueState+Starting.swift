/// The giving out of slots, and of operations to workers.
extension QueueState {
    private static let mostWorkers = 64
    private static let mostGrantsAtOnce = 64

    /// An operation to be started by the caller, outside the lock.
    enum Grant {
        case scheduled(ScheduledOperation)
        case foreign(ForeignMember)
    }

    /// Gives out slots. Operations that need a worker are put aside for one; the first other one is
    /// returned. `spawn` is how many workers the caller must start.
    mutating func nextGrant(aging: UInt64?, clock: any SchedulingClock) -> (grant: Grant?, spawn: Int, again: Bool) {
        for _ in 0..<Self.mostGrantsAtOnce {
            guard let index = nextIndex(aging: aging, clock: clock) else {
                return (nil, workersToSpawn(), false)
            }
            uncount(index)
            if let foreign = slots[Int(index)].foreign {
                slots[Int(index)].phase = .running
                return (.foreign(foreign), workersToSpawn(), true)
            }
            if slots[Int(index)].flags.contains(.direct), let operation = slots[Int(index)].scheduled {
                slots[Int(index)].phase = .running
                return (.scheduled(operation), workersToSpawn(), true)
            }
            slots[Int(index)].phase = .granted
            // What only has to finish does not queue for a worker behind what may take long.
            if slots[Int(index)].flags.contains(.exempt) {
                links.prepend(index, to: &runnable)
            } else {
                links.append(index, to: &runnable)
            }
            runnableCount += 1
        }
        return (nil, workersToSpawn(), true)
    }

    /// Whether nothing is started now but what only has to finish.
    private var isHeldBack: Bool { isSuspended || cancellations > 0 }

    private mutating func nextIndex(aging: UInt64?, clock: any SchedulingClock) -> Int32? {
        if let index = links.popFirst(&exempts) { return index }
        if let barrier = epochs.dueBarrier {
            let isExempt = slots[Int(barrier)].flags.contains(.exempt)
            if isExempt || !isHeldBack {
                epochs.takeDueBarrier()
                if !isExempt { running += 1 }
                return barrier
            }
        }
        guard !isHeldBack else { return nil }
        guard running < limit, lanes.count > 0 else { return nil }
        if let aging, lanes.isMixed { lanes.promote(now: clock.now, interval: aging) }
        guard let index = lanes.pop() else { return nil }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        return index
    }

    /// The next operations to be told, outside the lock, that they wait at a closed gate.
    mutating func nextGateNotices() -> [(operation: ScheduledOperation, deadline: UInt64)] {
        var notices: [(operation: ScheduledOperation, deadline: UInt64)] = []
        while notices.count < Self.mostGrantsAtOnce, let (index, deadline) = lanes.nextToBeTold() {
            if let operation = slots[Int(index)].scheduled { notices.append((operation, deadline)) }
        }
        return notices
    }

    private mutating func workersToSpawn() -> Int {
        let wanted = min(runnableCount - (workers - busyWorkers), Self.mostWorkers - workers)
        guard wanted > 0 else { return 0 }
        workers += wanted
        return wanted
    }

    /// The next operation for a worker. With none the worker is discounted, and must end.
    mutating func next(for worker: QueueWorker) -> ScheduledOperation? {
        release(worker)
        if let index = worker.current?.queueIndex, index >= 0, slots[Int(index)].worker === worker {
            slots[Int(index)].worker = nil
        }
        guard let index = links.popFirst(&runnable), let operation = slots[Int(index)].scheduled else {
            workers -= 1
            return nil
        }
        runnableCount -= 1
        slots[Int(index)].phase = .running
        slots[Int(index)].worker = worker
        worker.isBusy = true
        busyWorkers += 1
        return operation
    }

    /// Counts a worker as idle: it has returned from an operation, or is about to.
    mutating func release(_ worker: QueueWorker) {
        guard worker.isBusy else { return }
        worker.isBusy = false
        busyWorkers -= 1
    }

}
