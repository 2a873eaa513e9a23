import ConvoyReachability
import ConvoySecurity
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests of settings as a value: accessible by name, copied when changed, and assignable as a whole.
@Suite struct RequestSettingsTests {
    private static let url = URL(string: "http://host.invalid/")

    private func operation() throws -> HTTPRequestOperation {
        HTTPRequestOperation(request: URLRequest(url: try #require(Self.url)))
    }

    @Test func `a setting has the same value under its own name and in the settings`() throws {
        func check(_ owner: some RequestConfigurable) {
            owner.totalTimeout = 3
            owner.settings.maximumBodySize = 7
            owner.updateSettings { $0.identity = "ada" }
            #expect(owner.settings.totalTimeout == 3 && owner.maximumBodySize == 7)
            #expect(owner.connectionConfiguration.identity == "ada")
        }
        check(HTTPRequestOperationManager())
        check(try operation())
    }

    /// The recorded public properties of a type, with their types.
    private static func properties(of type: String) throws -> [String: Substring] {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let record = try String(contentsOf: tests.appendingPathComponent("API/ConvoyOperations.txt"), encoding: .utf8)
        var properties: [String: Substring] = [:]
        for line in record.split(separator: "\n") where line.hasPrefix("\(type).") {
            let parts = line.dropFirst(type.count + 1).split(separator: " | public var ", maxSplits: 1)
            guard parts.count == 2, let colon = parts[1].firstIndex(of: ":") else { continue }
            properties[String(parts[0])] = parts[1][colon...].split(separator: " {")[0]
        }
        return properties
    }

    @Test func `each setting is a property of the same name and type of all that have settings`() throws {
        let settings = try Self.properties(of: "RequestSettings.Values")
        var members = try Self.properties(of: "RequestConfigurable")
        #expect(members.removeValue(forKey: "settings") != nil)
        // The store is created when it is first read, so it is not one of the values.
        #expect(members.removeValue(forKey: "credentialStore") != nil)
        #expect(settings == members && settings.count > 20)
    }

    @Test func `an operation keeps the settings that its manager had when it was created`() throws {
        let manager = HTTPRequestOperationManager()
        manager.userInfo = ["made": "before"]
        let operation = manager.makeOperation(request: URLRequest(url: try #require(Self.url)))
        manager.userInfo = ["made": "after"]
        #expect(operation.userInfo["made"] as? String == "before")
        operation.maximumBodySize = 1
        #expect(manager.maximumBodySize != 1)
        let settings = manager.settings
        manager.idleTimeout = 9
        #expect(settings.idleTimeout == nil)
    }

    /// A copy shares its storage with the original until one of them changes.
    @Test func `copies are independent before and after their settings were used`() {
        func use(_ settings: RequestSettings, _ way: Int) {
            if way == 1 { _ = settings.prepared }
            if way == 2 { _ = settings.ofPart(decoding: true, identity: true) }
        }
        for way in 0..<3 {
            var original = RequestSettings()
            original.maximumBodySize = 1
            use(original, way)
            let first = original
            original.maximumBodySize = 2
            use(original, way)
            var second = original
            second.maximumBodySize = 3
            second.maximumBodySize += 1
            #expect([first, original, second].map(\.maximumBodySize) == [1, 2, 4])
            #expect([first, original, second].map(\.prepared.bodyLimit) == [1, 2, 4])
            #expect(original.ofPart(decoding: true, identity: true).prepared.bodyLimit == 2)
            // Without other references the values change in place, but not what was prepared from them.
            let prepared = second.prepared
            second.maximumBodySize = 5
            #expect(prepared.bodyLimit == 4 && second.prepared.bodyLimit == 5)
        }
    }

    @Test func `concurrent changes are not lost`() throws {
        for owner in [HTTPRequestOperationManager(), try operation()] as [any RequestConfigurable] {
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                for _ in 0..<100 { owner.updateSettings { $0.maximumBodySize += 1 } }
            }
            #expect(owner.maximumBodySize == RequestSettings().maximumBodySize + 400)
        }
    }

    @Test func `an update that throws changes nothing`() throws {
        let manager = HTTPRequestOperationManager()
        #expect(throws: URLError.self) {
            try manager.updateSettings { settings in
                settings.maximumBodySize = 1
                throw URLError(.unknown)
            }
        }
        #expect(manager.maximumBodySize == RequestSettings().maximumBodySize)
    }

    @Test func `a replaced value can access its owner while it is released`() throws {
        final class Releasing: Sendable {
            let onRelease: @Sendable () -> Void
            init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }
            deinit { onRelease() }
        }
        final class Flag: Sendable {
            private let value = Atomic(false)
            var isSet: Bool { value.load(ordering: .relaxed) }
            func set() { value.store(true, ordering: .relaxed) }
        }
        for owner in [HTTPRequestOperationManager(), try operation()] as [any RequestConfigurable] {
            let isReleased = Flag()
            owner.userInfo = [
                "key": Releasing { [unowned owner] in
                    _ = owner.settings
                    isReleased.set()
                }
            ]
            owner.userInfo = [:]
            #expect(isReleased.isSet)
        }
    }

    @Test func `copied credentials are restricted to the new owner's base URL`() throws {
        let one = HTTPRequestOperationManager(baseURL: URL(string: "http://one.invalid/"))
        one.credential = URLCredential(user: "ada", password: "secret", persistence: .none)
        let other = HTTPRequestOperationManager(baseURL: URL(string: "http://other.invalid/"))
        other.settings = one.settings
        func source(_ manager: HTTPRequestOperationManager, _ url: String) throws -> URLCredential? {
            let operation = manager.makeOperation(request: URLRequest(url: try #require(URL(string: url))))
            return operation.core.withLock { $0.credentialSource }.own
        }
        #expect(try source(other, "http://other.invalid/a") != nil)
        #expect(try source(other, "http://one.invalid/a") == nil)
    }

    @Test func `a refresh request waits for no token, even with its manager's settings`() throws {
        let manager = HTTPRequestOperationManager()
        manager.authenticator = Authenticator { _ in AccessToken("token") }
        let request = URLRequest(url: try #require(Self.url))
        let operation = Authenticator.$isRefreshing.withValue(true) { manager.makeOperation(request: request) }
        #expect(operation.authenticator == nil)
        operation.settings = manager.settings
        #expect(operation.authenticator == nil)
        #expect(manager.makeOperation(request: request).authenticator != nil)
    }

    @Test func `assigning settings replaces neither the transport nor the clock`() throws {
        let thread = NetworkThread()
        let operation = URLConnectionOperation(request: URLRequest(url: try #require(Self.url)), thread: thread)
        operation.settings = HTTPRequestOperationManager().settings
        let transport = operation.core.withLock { core in
            core.openTransport(for: Attempt(1, after: nil, core.common.prepared))
        }
        #expect(transport as? NetworkThread === thread)
    }

    @Test func `a manager's rate limit applies in addition to an operation's own`() throws {
        let manager = HTTPRequestOperationManager()
        let limit = RateLimit(bytesPerSecond: 1000)
        manager.receiveRateLimit = limit
        let operation = manager.makeOperation(request: URLRequest(url: try #require(Self.url)))
        #expect(operation.receiveRateLimit == nil)
        operation.receiveRateLimit = RateLimit(bytesPerSecond: 10)
        #expect(operation.connectionConfiguration.receiveRateLimits.first === limit)
    }

    @Test func `a copied manager has the same reachability manager`() {
        let manager = HTTPRequestOperationManager()
        manager.reachabilityManager = NetworkReachabilityManager()
        #expect(manager.makeCopy().reachabilityManager === manager.reachabilityManager)
    }

    @Test func `settings that collect metrics apply to an operation`() throws {
        let operation = try operation()
        var settings = RequestSettings()
        settings.collectsMetrics = true
        operation.settings = settings
        #expect(operation.eventLog != nil)
    }
}
