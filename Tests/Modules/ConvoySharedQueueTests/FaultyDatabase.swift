import ConvoyTestSupport
import Foundation

@testable import ConvoySharedQueue
@testable import ConvoySupport

/// Errors of statements, in a reproducible order.
final class StatementFaults: Sendable {
    /// The error of a statement, and whether the statement takes effect.
    typealias Fault = (error: SharedQueueError, takesEffect: Bool)

    /// The possible errors.
    static let errors: [SharedQueueError] = [
        .failed("injected"), .failed("canceling statement due to statement timeout"), .unavailable("injected"),
        .conflict("injected"), .diskFull("injected"),
    ]

    private let isActive = Locked(false)
    private let choose: @Sendable () -> Fault?

    /// Lets one of `interval` statements fail.
    init(seed: UInt64, interval: Int) {
        let random = Shared(SplitMix64(seed: seed))
        choose = {
            random.value.withLock { random in
                guard Int.random(in: 0..<interval, using: &random) == 0 else { return nil }
                return (Self.errors.randomElement(using: &random) ?? .closed, .random(using: &random))
            }
        }
    }

    /// Lets only one statement fail: the one with the given number, which begins with 0.
    init(failing number: Int, _ fault: Fault) {
        let count = Shared(0)
        choose = {
            count.value.withLock { count in
                defer { count += 1 }
                return count == number ? fault : nil
            }
        }
    }

    private final class Shared<Value: Sendable>: Sendable {
        let value: Locked<Value>
        init(_ value: Value) { self.value = Locked(value) }
    }

    func activate(_ isActive: Bool) { self.isActive.withLock { $0 = isActive } }

    /// Returns the fault of the next statement, if any.
    func next() -> Fault? { isActive.withLock { $0 } ? choose() : nil }

    /// Returns the store with these errors.
    func store(_ store: SharedQueueStore) -> SharedQueueStore {
        SharedQueueStore(
            name: store.name,
            open: { () throws(SharedQueueError) in FaultyDatabase(try store.open(), self) },
            listen: { () throws(SharedQueueError) in try store.listen() })
    }
}

/// A database whose statements fail before or after they take effect.
private final class FaultyDatabase: WorkDatabase {
    private let base: any WorkDatabase
    private let faults: StatementFaults
    private var isLost = false

    init(_ base: any WorkDatabase, _ faults: StatementFaults) { (self.base, self.faults) = (base, faults) }

    var dialect: WorkDialect { base.dialect }
    var isBroken: Bool { isLost || base.isBroken }

    private func run<Result>(
        canConflict: Bool = true, _ body: () throws(SharedQueueError) -> Result
    ) throws(SharedQueueError) -> Result {
        guard !isLost else { throw .unavailable("The connection is lost.") }
        guard let (injected, takesEffect) = faults.next() else { return try body() }
        // The only error after a commit is that its response is lost.
        let error = !canConflict && takesEffect ? .unavailable("injected") : injected
        if takesEffect { _ = try body() }
        if case .unavailable = error { isLost = true }
        throw error
    }

    func query(_ sql: String, _ values: [WorkValue]) throws(SharedQueueError) -> [WorkRow] {
        try run { () throws(SharedQueueError) in try base.query(sql, values) }
    }

    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result {
        try run(canConflict: false) { () throws(SharedQueueError) in try base.transaction(body) }
    }

    func pick(_ lanes: [WorkLane], limit: Int) throws(SharedQueueError) -> [WorkRow] {
        try run { () throws(SharedQueueError) in try base.pick(lanes, limit: limit) }
    }

    func announce(_ change: WorkAnnouncement) throws(SharedQueueError) { try base.announce(change) }
}
