import ConvoySupport
import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyReachability

/// A network that changes constantly, or never.
final class StormTests: NetworkTestCase {
    private let queue = DispatchQueue(label: "handlers")

    private func listener(_ watch: NetworkWatch) throws -> Listener {
        try Listener(
            NetworkReachabilityManager(
                source: AddressSource(addresses: AddressSource.outside, watch: watch), queue: queue))
    }

    /// Removes and adds the default route the given number of times, in a single command.
    private func flap(_ count: Int, lastly: String...) throws {
        let once = ["route del default", "route add default via 192.0.2.1"]
        let commands = Array(repeating: once, count: count).flatMap { $0 } + lastly
        let text = commands.joined(separator: "\n") + "\n"
        XCTAssertEqual(try ProcessRunner.run("ip", ["-batch", "-"], input: Data(text.utf8)).status, 0)
    }

    func testAThousandChangesInASecondEndInOneReportOfWhatThereIsThen() throws {
        try inNamespace {
            try connect()
            let watch = NetworkWatch()
            let all = try listener(watch)
            let before = watch.counts
            let start = MonotonicClock.now
            try flap(500, lastly: "route del default")
            let duration = Nanoseconds.seconds(from: start, to: MonotonicClock.now)
            print("1001 changes in \(duration) s")
            try all.hears(.notReachable)
            XCTAssertGreaterThanOrEqual(watch.counts.changes + 1000 * watch.counts.overruns - before.changes, 1000)
            // The network is evaluated at most once per 0.7 seconds if it changes without a pause.
            let most = 2 + Int(duration / 0.7)
            XCTAssertLessThanOrEqual(all.heard.all.count, 1 + most, "\(all.heard.all)")
            try flap(0, lastly: "route add default via 192.0.2.1")
            try all.hears(.reachableViaWire)
            XCTAssertEqual(all.heard.all.suffix(2), [.notReachable, .reachableViaWire])
        }
    }

    func testNewsThatHaveNoRoomInTheSocketAreReadFromTheKernelAnew() throws {
        try inNamespace {
            try connect()
            let gate = Gate()
            // The minimum buffer that the system allows holds a few messages.
            let watch = NetworkWatch(settings: WatchSettings(receiveBufferSize: 1, willRead: { gate.pass() }))
            let all = try listener(watch)
            gate.close()
            // The last change does not fit into the buffer.
            try flap(500, lastly: "route del default")
            gate.open()
            try all.hears(.notReachable)
            XCTAssertGreaterThan(watch.counts.overruns, 0)
            XCTAssertLessThan(watch.counts.changes, 1000)
            try flap(0, lastly: "route add default via 192.0.2.1")
            try all.hears(.reachableViaWire)
            XCTAssertEqual(all.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
        }
    }

    func testNothingWakesUpInANetworkInWhichNothingHappens() throws {
        try inNamespace {
            try connect()
            let watch = NetworkWatch()
            let listeners = try (0..<3).map { _ in try listener(watch) }
            // New links send messages for a few seconds.
            let quiet: TimeInterval = 4
            var (before, since) = (watch.counts, MonotonicClock.now)
            try eventually(timeout: 60, "\(quiet) quiet seconds") {
                if watch.counts != before { (before, since) = (watch.counts, MonotonicClock.now) }
                return Nanoseconds.seconds(from: since, to: MonotonicClock.now) >= quiet
            }
            // The thread still wakes up for a change.
            try ip("link set v1 down")
            for listener in listeners { try listener.hears(.notReachable) }
        }
    }
}

/// Blocks a thread while it is closed.
private final class Gate: Sendable {
    private let condition = NSCondition()
    private nonisolated(unsafe) var isClosed = false

    func close() { set(true) }
    func open() { set(false) }

    func pass() {
        condition.lock()
        while isClosed { condition.wait() }
        condition.unlock()
    }

    private func set(_ value: Bool) {
        condition.lock()
        isClosed = value
        condition.broadcast()
        condition.unlock()
    }
}
