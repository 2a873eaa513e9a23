import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyReachability

/// The manager with a scripted source.
@Suite struct ManagerTests {
    private let source = ScriptedSource()
    private let queue = DispatchQueue(label: "handlers")

    private func makeManager() -> NetworkReachabilityManager { NetworkReachabilityManager(source: source, queue: queue) }

    @Test func `the status is unknown until the first report`() throws {
        let manager = makeManager()
        #expect(manager.networkReachabilityStatus == .unknown && !manager.isReachable && !manager.isMonitoring)
        try manager.startMonitoring()
        #expect(manager.networkReachabilityStatus == .unknown && manager.isMonitoring)
        source.report(.reachableViaWiFi)
        #expect(manager.isReachable && manager.isReachableViaWiFi && !manager.isReachableViaWWAN)
        source.report(.reachableViaWWAN)
        #expect(manager.isReachable && manager.isReachableViaWWAN && !manager.isReachableViaWiFi)
        source.report(.reachableViaWire)
        #expect(manager.isReachable && manager.isReachableViaWire && !manager.isReachableViaWWAN)
        source.report(.notReachable)
        #expect(!manager.isReachable && !manager.isReachableViaWire)
    }

    @Test func `the descriptions and raw values are those of AFNetworking`() {
        let all = NetworkReachabilityStatus.allCases
        #expect(all.map(\.rawValue) == [-1, 0, 1, 2, 3])
        #expect(
            all.map(\.description) == [
                "Unknown", "Not Reachable", "Reachable via WWAN", "Reachable via WiFi", "Reachable via wire",
            ])
        #expect(makeManager().localizedNetworkReachabilityStatusString == "Unknown")
        #expect(Notification.Name.networkingReachabilityDidChange.rawValue == "com.alamofire.networking.reachability.change")
        #expect(NetworkReachabilityManager.statusUserInfoKey == "AFNetworkingReachabilityNotificationStatusItem")
    }

    @Test func `the handler is called with each change once and in order, on its queue`() throws {
        let manager = makeManager()
        let heard = Record<NetworkReachabilityStatus>()
        let key = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: key, value: true)
        manager.reachabilityStatusChangeHandler = { status in
            #expect(DispatchQueue.getSpecific(key: key) == true)
            heard.add(status)
        }
        try manager.startMonitoring()
        let all = (0..<500).map { [NetworkReachabilityStatus.reachableViaWire, .notReachable, .reachableViaWiFi][$0 % 3] }
        for status in all {
            source.report(status)
            source.report(status)
        }
        try eventually { heard.all.count >= all.count }
        queue.sync {}
        #expect(heard.all == all)
    }

    @Test func `observers are notified of the changes they observe, as long as they are retained`() throws {
        let manager = makeManager()
        let (reachable, wifi, everything) = (Record<[Bool]>(), Record<Bool>(), Record<NetworkReachabilityStatus>())
        let first = manager.observe(.isReachable) { _, change in reachable.add([change.oldValue, change.newValue]) }
        var second: ReachabilityObservation? = manager.observe(.isReachableViaWiFi, on: queue) { _, change in
            wifi.add(change.newValue)
        }
        let third = manager.observe(.status) { _, change in everything.add(change.newValue) }
        try manager.startMonitoring()
        source.report(.reachableViaWire)
        source.report(.reachableViaWiFi)
        try eventually { wifi.all == [true] && everything.all.count == 2 }
        withExtendedLifetime(second) { second = nil }
        first.invalidate()
        source.report(.notReachable)
        try eventually { everything.all == [.reachableViaWire, .reachableViaWiFi, .notReachable] }
        queue.sync {}
        #expect(reachable.all == [[false, true]])
        #expect(wifi.all == [true])
        withExtendedLifetime(third) {}
    }

    @Test func `the notification contains the manager and the status`() throws {
        let manager = makeManager()
        let heard = Record<Int?>()
        let observer = NotificationCenter.default.addObserver(
            // In Swift 6.2, Foundation delivers nothing for an `object` that is not an NSObject.
            forName: .networkingReachabilityDidChange, object: nil, queue: nil
        ) { note in
            guard note.object as? NetworkReachabilityManager === manager else { return }
            heard.add(note.userInfo?[NetworkReachabilityManager.statusUserInfoKey] as? Int)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try manager.startMonitoring()
        source.report(.reachableViaWWAN)
        source.report(.notReachable)
        try eventually { heard.all.count == 2 }
        #expect(heard.all == [1, 0])
    }

    @Test func `the sequence starts with the current status and ends with the manager`() async throws {
        var manager: NetworkReachabilityManager? = makeManager()
        try manager?.startMonitoring()
        source.report(.notReachable)
        let statuses = try #require(manager).statuses
        var iterator = statuses.makeAsyncIterator()
        #expect(await iterator.next() == .notReachable)
        for _ in 0..<50 {
            source.report(.reachableViaWire)
            source.report(.notReachable)
        }
        source.report(.reachableViaWiFi)
        while let status = await iterator.next(), status != .reachableViaWiFi {}
        manager = nil
        #expect(await iterator.next() == nil)
        #expect(source.ends == 1)
    }

    @Test func `nothing is reported after a stop, and late reports are ignored`() throws {
        let manager = makeManager()
        let heard = Record<NetworkReachabilityStatus>()
        manager.reachabilityStatusChangeHandler = { heard.add($0) }
        try manager.startMonitoring()
        queue.sync {
            source.report(.reachableViaWire)
            // When the manager's own queue has run, the handler call has been scheduled.
            let observed = DispatchSemaphore(value: 0)
            let observation = manager.observe(.status) { _, _ in observed.signal() }
            source.report(.notReachable)
            #expect(observed.wait(timeout: .now() + 10) == .success)
            observation.invalidate()
            manager.stopMonitoring()
        }
        source.report(.reachableViaWiFi)
        #expect(manager.networkReachabilityStatus == .unknown && !manager.isMonitoring && source.ends == 1)
        queue.sync {}
        #expect(heard.all.isEmpty)
        manager.stopMonitoring()
        #expect(source.ends == 1, "it ends once")
    }

    @Test func `starting again reports the status again`() throws {
        let manager = makeManager()
        let heard = Record<NetworkReachabilityStatus>()
        manager.reachabilityStatusChangeHandler = { heard.add($0) }
        try manager.startMonitoring()
        source.report(.reachableViaWire)
        try eventually { heard.all.count == 1 }
        try manager.startMonitoring()
        #expect(manager.networkReachabilityStatus == .unknown && source.begins == 2 && source.ends == 1)
        source.report(.notReachable, to: 0)
        #expect(manager.networkReachabilityStatus == .unknown, "the first run has ended")
        source.report(.reachableViaWire)
        try eventually { heard.all.count == 2 }
        #expect(heard.all == [.reachableViaWire, .reachableViaWire])
    }

    @Test func `a start fails if its source does, and the next start can succeed`() throws {
        let manager = makeManager()
        source.refuse()
        #expect(throws: ScriptedSource.Refusal.self) { try manager.startMonitoring() }
        #expect(!manager.isMonitoring && manager.networkReachabilityStatus == .unknown)
    }

    @Test func `concurrent starts and stops leave one monitor or none`() throws {
        let manager = makeManager()
        DispatchQueue.concurrentPerform(iterations: 400) { number in
            if number % 2 == 0 { try? manager.startMonitoring() } else { manager.stopMonitoring() }
        }
        #expect(source.begins - source.ends == (manager.isMonitoring ? 1 : 0))
        manager.stopMonitoring()
        #expect(source.begins == source.ends)
    }

    @Test func `a released manager stops, even while a handler runs`() throws {
        var manager: NetworkReachabilityManager? = makeManager()
        weak let released = manager
        manager?.reachabilityStatusChangeHandler = { _ in }
        try manager?.startMonitoring()
        source.report(.reachableViaWire)
        manager = nil
        try eventually { released == nil }
        #expect(source.ends == 1)
    }

    @Test func `no manager can be created for an invalid address`() {
        #expect(NetworkReachabilityManager(address: "example.com") == nil)
        #expect(NetworkReachabilityManager(address: "") == nil)
    }

    @Test(arguments: ["localhost", "app.localhost", "App.Localhost.", "127.0.0.1", "[::1]"])
    func `an operation needs no network to reach this machine`(host: String) {
        let target = NetworkTarget(host: host)
        #expect(target.isAddress && target.name == nil && !target.isOutOfReach)
        #expect(!target.addresses.contains { !$0.isLoopback })
        #expect(!NetworkTarget(host: "\(host).example").isAddress)
    }

    @Test func `loopback is always reachable, by address and by name`() throws {
        for manager in [
            NetworkReachabilityManager(address: "127.0.0.1"), NetworkReachabilityManager(address: "::1"),
            NetworkReachabilityManager(domain: "127.0.0.1"), NetworkReachabilityManager(domain: "[::1]"),
            NetworkReachabilityManager(domain: "localhost"), NetworkReachabilityManager(domain: "a.b.LOCALHOST."),
        ] {
            let manager = try #require(manager)
            try manager.startMonitoring()
            try eventually { manager.networkReachabilityStatus == .reachableViaWire }
        }
    }
}
