import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyReachability

/// Operations that wait for the network.
final class WaitingOperationTests: NetworkTestCase {
    private let queue = RequestOperationQueue()

    /// Returns an operation for the test server, using the given name or address.
    private func operation(
        _ host: String, port: UInt16, method: String = "GET", waits: Bool = true
    ) throws -> (HTTPRequestOperation, Record<RetryEvent.Decision>) {
        var request = URLRequest(url: try XCTUnwrap(URL(string: "http://\(host):\(port)/")))
        request.httpMethod = method
        request.timeoutInterval = 5
        let operation = HTTPRequestOperation(request: request)
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        operation.connectionConfiguration = configuration
        operation.waitsForConnectivity = waits
        let decisions = Record<RetryEvent.Decision>()
        operation.completionQueue = DispatchQueue(label: "handlers")
        operation.retryHandler = { _, event in decisions.add(event.decision) }
        return (operation, decisions)
    }

    private func server() throws -> TestServer {
        let server = try TestServer()
        server.route(nil, "/", .text("hello"))
        return server
    }

    /// Starts a name server that knows no names until the test adds them.
    private func names(_ areKnown: Flag) throws -> ScriptedNameServer {
        try ScriptedNameServer { _, isIPv6, _ in areKnown.isSet && !isIPv6 ? ["127.0.0.1"] : [] }
    }

    func testANameThatCannotBeFoundWithoutANetworkIsWaitedForWhateverTheMethodIs() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            server.route("POST", "/", .text("posted"))
            let all = try [("GET", "hello"), ("POST", "posted")].map { method, text in
                (try operation("host.example", port: server.port, method: method), text)
            }
            for ((operation, _), _) in all { queue.addOperation(operation) }
            try eventually { NetworkReturn.shared.count == 2 }
            for ((operation, decisions), _) in all {
                try eventually { decisions.all == [.waitForNetwork] }
                XCTAssertFalse(operation.isFinished)
            }
            areKnown.set()
            try connect()
            for ((operation, decisions), text) in all {
                try eventually { operation.isFinished }
                XCTAssertNil(operation.error)
                XCTAssertEqual(operation.responseString, text)
                XCTAssertEqual(operation.retryCount, 1)
                XCTAssertEqual(decisions.all, [.waitForNetwork])
            }
            XCTAssertEqual(NetworkReturn.shared.count, 0)
            withExtendedLifetime(names) {}
        }
    }

    func testAnAddressWithoutAWayIsWaitedFor() throws {
        try inNamespace {
            let listener = try AcceptCounter()
            let (operation, decisions) = try operation("192.0.2.2", port: listener.port)
            queue.addOperation(operation)
            try eventually { NetworkReturn.shared.count == 1 }
            // The network becomes available, but without a route to that host.
            try ip("link set v0 up", "link set v1 up", "addr add 203.0.113.2/24 dev v0")
            let other = try Listener(
                NetworkReachabilityManager(address: "203.0.113.7", queue: DispatchQueue(label: "other")))
            try other.hears(.reachableViaWire)
            XCTAssertEqual(NetworkReturn.shared.count, 1)
            try ip("addr add 192.0.2.2/24 dev v0")
            // The address now belongs to this machine, which refuses the connection.
            try eventually { listener.takeCount() == 1 }
            try eventually { operation.isFinished }
            XCTAssertEqual((operation.error as? URLError)?.code, .networkConnectionLost)
            try eventually { decisions.all == [.waitForNetwork] }
        }
    }

    func testAHostByNameIsTriedAgainWhenThereIsAWayToItThoughNoneToTheInternet() throws {
        try inNamespace {
            let listener = try AcceptCounter()
            let names = try ScriptedNameServer { _, isIPv6, _ in isIPv6 ? [] : ["192.0.2.2"] }
            let (operation, decisions) = try operation("host.example", port: listener.port)
            queue.addOperation(operation)
            try eventually { NetworkReturn.shared.count == 1 }
            // The network becomes available, but without a route to that host.
            try ip("link set v0 up", "link set v1 up", "addr add 203.0.113.2/24 dev v0")
            let other = try Listener(
                NetworkReachabilityManager(address: "203.0.113.7", queue: DispatchQueue(label: "other")))
            try other.hears(.reachableViaWire)
            XCTAssertEqual(NetworkReturn.shared.count, 1)
            try ip("addr add 192.0.2.2/24 dev v0")
            // The address now belongs to this machine, which refuses the connection.
            try eventually { listener.takeCount() == 1 }
            try eventually { operation.isFinished }
            XCTAssertEqual((operation.error as? URLError)?.code, .networkConnectionLost)
            try eventually { decisions.all == [.waitForNetwork] }
            withExtendedLifetime(names) {}
        }
    }

    func testANameThatIsKnownOnlyInANetworkWithoutADefaultRouteIsFoundThere() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            let (operation, _) = try operation("host.example", port: server.port)
            queue.addOperation(operation)
            try eventually { NetworkReturn.shared.count == 1 }
            XCTAssertFalse(operation.isFinished)
            areKnown.set()
            try ip("link set v0 up", "link set v1 up", "addr add 203.0.113.2/24 dev v0")
            try eventually { operation.isFinished }
            XCTAssertEqual(operation.responseString, "hello")
            XCTAssertEqual(NetworkReturn.shared.count, 0)
            withExtendedLifetime(names) {}
        }
    }

    func testWhoDoesNotAskForItFailsAtOnceAndSoDoesAFailureThatIsNotTheNetworks() throws {
        try inNamespace {
            let server = try server()
            let names = try names(Flag())
            let (plain, _) = try operation("host.example", port: server.port, waits: false)
            let (local, _) = try operation("127.0.0.1", port: 9)
            for operation in [plain, local] { queue.addOperation(operation) }
            try eventually { plain.isFinished && local.isFinished }
            XCTAssertEqual((plain.error as? URLError)?.code, .cannotFindHost)
            XCTAssertEqual((local.error as? URLError)?.code, .cannotConnectToHost)
            // With a network, a name that does not exist causes an error.
            try connect()
            let (unknown, decisions) = try operation("nobody.example", port: server.port)
            queue.addOperation(unknown)
            try eventually { unknown.isFinished }
            XCTAssertEqual((unknown.error as? URLError)?.code, .cannotFindHost)
            XCTAssertEqual(decisions.all, [])
            withExtendedLifetime(names) {}
        }
    }

    func testAWaitHoldsNoSlotAndEndsWithACancellationAPauseOrTheTimeOfTheOperation() throws {
        try inNamespace {
            let server = try server()
            let names = try names(Flag())
            queue.maxConcurrentOperationCount = 1
            let waiting = try (0..<3).map { _ in try operation("host.example", port: server.port).0 }
            waiting[2].totalTimeout = 0.5
            let (local, _) = try operation("127.0.0.1", port: server.port)
            for operation in waiting + [local] { queue.addOperation(operation) }
            // The local operation ends even though the operations before it wait forever.
            try eventually { local.isFinished }
            XCTAssertEqual(local.responseString, "hello")
            waiting[0].cancel()
            waiting[1].pause()
            try eventually { waiting[0].isFinished && waiting[2].isFinished }
            XCTAssertEqual((waiting[0].error as? URLError)?.code, .cancelled)
            XCTAssertEqual((waiting[2].error as? URLError)?.code, .timedOut)
            XCTAssertTrue(waiting[1].isPaused)
            try eventually("no needless wait") { NetworkReturn.shared.count == 0 }
            waiting[1].resume()
            try eventually { NetworkReturn.shared.count == 1 }
            waiting[1].cancel()
            try eventually { waiting[1].isFinished && NetworkReturn.shared.count == 0 }
            withExtendedLifetime(names) {}
        }
    }

    func testNamesThatAreKnownALittleLaterThanTheNetworkAreWaitedForToo() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            let (operation, decisions) = try operation("host.example", port: server.port)
            let counts = Record<Int>()
            operation.retryHandler = { _, event in
                counts.add(event.retryCount)
                decisions.add(event.decision)
            }
            queue.addOperation(operation)
            try eventually { NetworkReturn.shared.count == 1 }
            try connect()
            try eventually { decisions.all.count == 2 }
            areKnown.set()
            try eventually { operation.isFinished }
            XCTAssertEqual(operation.responseString, "hello")
            XCTAssertEqual(decisions.all, [.waitForNetwork, .retry(after: 1)])
            XCTAssertEqual(counts.all, [0, 1])
            withExtendedLifetime(names) {}
        }
    }

    func testNamesThatStayUnknownAreAskedForAfterLongerAndLongerDelays() throws {
        try inNamespace {
            let server = try server()
            let names = try names(Flag())
            let (operation, decisions) = try operation("host.example", port: server.port)
            queue.addOperation(operation)
            try eventually { NetworkReturn.shared.count == 1 }
            try connect()
            try eventually(timeout: 60) { decisions.all.count == 4 }
            XCTAssertEqual(decisions.all, [.waitForNetwork, .retry(after: 1), .retry(after: 3), .retry(after: 9)])
            operation.cancel()
            try eventually { operation.isFinished }
            withExtendedLifetime(names) {}
        }
    }

    func testADownloadWaitsAsAWhole() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            let directory = try TemporaryDirectory()
            let url = try XCTUnwrap(URL(string: "http://host.example:\(server.port)/"))
            let download = DownloadOperation(request: URLRequest(url: url), destination: directory.file("file"))
            download.waitsForConnectivity = true
            queue.addOperation(download)
            try eventually { NetworkReturn.shared.count == 1 }
            areKnown.set()
            try connect()
            try eventually { download.isFinished }
            XCTAssertNil(download.error)
            XCTAssertEqual(try String(contentsOf: directory.file("file"), encoding: .utf8), "hello")
            withExtendedLifetime(names) {}
        }
    }

    func testAThousandThatWaitShareOneListenerAndAllGoOn() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            let manager = HTTPRequestOperationManager()
            manager.waitsForConnectivity = true
            manager.responseSerializer = HTTPResponseSerializer()
            let url = "http://host.example:\(server.port)/"
            let done = Record<String?>()
            for _ in 0..<1000 {
                manager.get(
                    url, success: { operation, _ in done.add(operation.responseString) },
                    failure: { _, error in done.add("\(error)") })
            }
            try eventually(timeout: 60) { NetworkReturn.shared.count == 1000 }
            areKnown.set()
            try connect()
            try eventually(timeout: 60) {
                _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01))
                return done.all.count == 1000
            }
            XCTAssertEqual(done.all.count { $0 == "hello" }, 1000, "\(done.all.first { $0 != "hello" } as Any)")
            withExtendedLifetime(names) {}
        }
    }
}
