import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyReachability

/// The cost of many managers.
@Suite(.serialized) struct SharingTests {
    @Test func `a hundred managers share one descriptor and thread, which end with the last manager`() throws {
        let queue = DispatchQueue(label: "handlers")
        try eventually("the sockets of other tests to close") { NetworkWatch.shared.counts == WatchSession.Counts() }
        let sockets = netlinkSockets
        let managers = (0..<100).compactMap { number in
            number % 2 == 0
                ? NetworkReachabilityManager(queue: queue)
                : NetworkReachabilityManager(address: "192.0.2.\(number)", queue: queue)
        }
        try #require(managers.count == 100)
        for manager in managers { try manager.startMonitoring() }
        try eventually { managers.allSatisfy { $0.networkReachabilityStatus != .unknown } }
        // A second socket exists only during an evaluation.
        try eventually("one socket, not \(netlinkSockets)") { netlinkSockets == sockets + 1 }
        #expect(watchingThreads == 1)
        for manager in managers.dropLast() { manager.stopMonitoring() }
        #expect(netlinkSockets >= sockets + 1)
        managers.last?.stopMonitoring()
        try eventually("no socket, not \(netlinkSockets)") { netlinkSockets == sockets && watchingThreads == 0 }
        try managers[0].startMonitoring()
        try eventually { managers[0].networkReachabilityStatus != .unknown }
        managers[0].stopMonitoring()
    }

    @Test func `starting and stopping a thousand times leaks no resources`() throws {
        let queue = DispatchQueue(label: "handlers")
        let manager = NetworkReachabilityManager(queue: queue)
        try manager.startMonitoring()
        manager.stopMonitoring()
        try eventually { watchingThreads == 0 }
        let descriptors = ProcessMeters.openDescriptors
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            for _ in 0..<125 {
                let manager = NetworkReachabilityManager(queue: queue)
                try? manager.startMonitoring()
                manager.stopMonitoring()
            }
        }
        try eventually { watchingThreads == 0 && ProcessMeters.openDescriptors <= descriptors }
    }

    /// The netlink sockets of this process.
    private var netlinkSockets: Int {
        let table = (try? String(contentsOfFile: "/proc/self/net/netlink", encoding: .utf8)) ?? ""
        let inodes = Set(table.split(separator: "\n").compactMap { $0.split(separator: " ").last })
        return ProcessMeters.descriptorTargets.count { target in
            target.contains("socket:[") && inodes.contains { target.hasSuffix("[\($0)]") }
        }
    }

    private var watchingThreads: Int {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return tasks.count { task in
            (try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)) == "Convoy.Reach\n"
        }
    }
}
