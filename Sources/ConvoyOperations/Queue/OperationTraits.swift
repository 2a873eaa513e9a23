/// The facts about an operation that are read without a lock, in one atomic word. Except for `reportsAnswer`, a trait is
/// never removed.
struct OperationTraits: OptionSet, Sendable {
    let rawValue: UInt32

    // MARK: Relations to others

    /// The end is being posted. A thread that connects the operation with another operation, or adds it to a queue,
    /// either finds this trait or is early enough for `executionDidFinish()` to take it into account.
    static let over = OperationTraits(rawValue: 1 << 0)
    /// A queue has taken the operation, or is about to.
    static let claimed = OperationTraits(rawValue: 1 << 1)
    /// A foreign operation depends on this one, so that Foundation evaluates the foreign one when this one ends.
    static let wakesForeign = OperationTraits(rawValue: 1 << 2)
    /// The queue must be notified when the host answers, because the host has refused connections.
    static let reportsAnswer = OperationTraits(rawValue: 1 << 3)
    /// The operation is awaited outside a queue, and starts itself when it is ready.
    static let startsWhenReady = OperationTraits(rawValue: 1 << 8)

    // MARK: Facts that a class declares

    // A queue reads these facts as stored values, instead of calling methods whose results are the same for nearly all
    // operations.

    /// The class is the library's own, not a user's subclass, which may override `isReady`, `isFinished` or
    /// `isCancelled`.
    static let ofLibrary = OperationTraits(rawValue: 1 << 4)
    /// The queue calls `start()` inline; see ``ScheduledOperation/isStartedDirectly``.
    static let startedDirectly = OperationTraits(rawValue: 1 << 5)
    /// The operation uses no slot; see ``ScheduledOperation/takesSlot``.
    static let slotless = OperationTraits(rawValue: 1 << 6)
    /// The operation only has to finish when its lifecycle is ending, regardless of what a user's class returns from
    /// `isCancelled`.
    static let endsByLifecycle = OperationTraits(rawValue: 1 << 7)
    /// ``ScheduledOperation/didJoinQueue()`` must be called.
    static let hearsOfQueue = OperationTraits(rawValue: 1 << 9)
    /// The operation requests reports of what it waits for. Waits that began earlier are not reported.
    static let hearsOfWaits = OperationTraits(rawValue: 1 << 10)

    // MARK: Features in use

    // Few operations use these features, and the other operations skip a lookup under their lock.

    /// A progress handler is set, or `progress` was read.
    static let progress = OperationTraits(rawValue: 1 << 16)
    /// A supervisor is called with changes before they take effect.
    static let supervisor = OperationTraits(rawValue: 1 << 17)
    /// A delegate follows the transfer and decides about it.
    static let delegate = OperationTraits(rawValue: 1 << 18)
    /// The settings have, or had, a completion group.
    static let completionGroup = OperationTraits(rawValue: 1 << 19)
    /// The settings have, or had, a retry policy.
    static let retryPolicy = OperationTraits(rawValue: 1 << 20)
    /// The operation has an authentication record or a token.
    static let authentication = OperationTraits(rawValue: 1 << 22)
    /// Hooks or a group are waiting for the delivery.
    static let delivery = OperationTraits(rawValue: 1 << 23)

    // MARK: Steps of the delivery

    /// The handlers have run, or none are set.
    static let handlersRan = OperationTraits(rawValue: 1 << 24)
    /// The end has been posted, so that dependents and queues have been notified.
    static let endPosted = OperationTraits(rawValue: 1 << 25)
    /// Both steps of the delivery.
    static let delivered: OperationTraits = [.handlersRan, .endPosted]
}
