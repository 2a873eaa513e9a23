import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The clock of a queue in a file.
@Suite struct QueueClockTests {
    /// The clocks of a machine, in microseconds.
    private struct Machine: Sendable {
        var wall: Int64 = 1_800_000_000_000_000
        var up: Int64 = 50_000_000
        var boot: Int64 = 1

        mutating func pass(_ microseconds: Int64) {
            wall += microseconds
            up += microseconds
        }
    }

    private final class Shared: Sendable { let value = Locked(Machine()) }

    private let directory: TemporaryDirectory
    private let machine = Shared()

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-clock") }

    private func open() throws -> WorkStore {
        let clock = QueueClock(
            wall: { [machine] in machine.value.withLock { $0.wall } }, up: { [machine] in machine.value.withLock { $0.up } },
            boot: machine.value.withLock { $0.boot })
        return WorkStore(try SQLiteWorkDatabase(path: directory.file("queue.sqlite").path, clock: clock))
    }

    @Test("a clock that is set back or forward changes no lease and no delay", arguments: [-3_600_000_000, 3_600_000_000])
    func jumps(jump: Int64) throws {
        let store = try open(), worker = try store.worker(lasting: 60_000_000)
        let leased = WorkItem.plain(), delayed = WorkItem.plain { $0.delay = 30_000_000 }
        try store.enqueue([leased, delayed])
        #expect(try store.claim(worker: worker, limit: 2, tags: nil).entries.map(\.id) == [leased.id])
        machine.value.withLock { $0.wall += jump }
        for store in [store, try open()] {
            try store.maintain()
            #expect(try store.state(leased.id) == .leased)
            #expect(try store.state(delayed.id) == .waiting)
        }
        machine.value.withLock { $0.pass(31_000_000) }
        try store.maintain()
        #expect(try store.state(leased.id) == .leased)
        #expect(try store.state(delayed.id) == .ready)
        machine.value.withLock { $0.pass(30_000_000) }
        try store.maintain()
        #expect(try store.state(leased.id) == .ready)
    }

    @Test("after a restart of the machine, the time continues even if its clock has lost the date")
    func restart() throws {
        var store = try open()
        try store.enqueue([WorkItem.plain()])
        let before = try store.now()
        #expect(before == machine.value.withLock { $0.wall })
        machine.value.withLock { $0 = Machine(wall: 0, up: 1_000_000, boot: 2) }
        store = try open()
        #expect(try store.now() == before)
        machine.value.withLock { $0 = Machine(wall: before + 90_000_000, up: 1_000_000, boot: 3) }
        store = try open()
        #expect(try store.now() == before + 90_000_000)
    }
}
