import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyReachability

/// Transfers over a network that loses packets, disappears or changes. With `CONVOY_NETWORK=all` (`Tests/long
/// network`), the files are larger, and the link is down for 3 s instead of 1 s.
final class LinkFaultTests: NetworkTestCase {
    private let manager = HTTPRequestOperationManager(baseURL: nil)
    private let isWhole = ProcessInfo.processInfo.environment["CONVOY_NETWORK"] == "all"
    /// The time without data after which a request fails, in seconds.
    private let timeout = 1.0

    private func url(_ path: String) throws -> URL { try XCTUnwrap(URL(string: "http://\(PeerHost.address)\(path)")) }

    private func prepare<Operation: URLConnectionOperation>(_ operation: Operation) -> Operation {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        operation.connectionConfiguration = configuration
        operation.completionQueue = DispatchQueue(label: "handlers")
        return operation
    }

    private func request(_ path: String = "/hello", timeout: TimeInterval? = nil) throws -> HTTPRequestOperation {
        var request = URLRequest(url: try url(path))
        request.timeoutInterval = timeout ?? self.timeout
        return manager.enqueue(prepare(HTTPRequestOperation(request: request)))
    }

    /// Returns a download that has not been started.
    private func download(
        _ path: String = "/file", to directory: TemporaryDirectory, timeout: TimeInterval? = nil, retries: Bool = false
    ) throws -> DownloadOperation {
        var request = URLRequest(url: try url(path))
        request.timeoutInterval = timeout ?? self.timeout
        let download = prepare(DownloadOperation(request: request, destination: directory.file("got")))
        if retries {
            var policy = RetryPolicy(maximumRetryCount: 5)
            (policy.initialDelay, policy.maximumDelay) = (0.1, 0.2)
            download.retryPolicy = policy
        }
        return download
    }

    /// Runs a body in a namespace that is connected to another host.
    private func withPeer(
        size: Int, needs lack: String? = PeerHost.lack, name: String = #function,
        _ body: (PeerHost, TemporaryDirectory) throws -> Void
    ) throws {
        if let lack { throw XCTSkip("needs \(lack)") }
        try inNamespace(
            {
                let (peer, directory) = (try PeerHost(size: size), try TemporaryDirectory(prefix: "convoy-link"))
                defer {
                    peer.stop()
                    directory.remove()
                }
                try body(peer, directory)
            }, name: name)
    }

    private func expectFile(_ peer: PeerHost, _ directory: TemporaryDirectory, line: UInt = #line) throws {
        let got = try Data(contentsOf: directory.file("got"))
        XCTAssertTrue(got == peer.bytes, "\(got.count) bytes of \(peer.bytes.count)", line: line)
    }

    /// Waits until some of the bytes have been received, and expects at most half of them.
    private func awaitSome(of download: DownloadOperation, _ peer: PeerHost) throws {
        try eventually("some bytes") { download.transferProgress.bytesReceived > 50_000 }
        XCTAssertLessThan(download.transferProgress.bytesReceived, Int64(peer.bytes.count / 2))
    }

    func testOver300MillisecondsWithLossAndReorderingEverythingArrivesWhole() throws {
        let lack = PeerHost.lack ?? PacketRelay.lack
        try withPeer(size: isWhole ? 1_000_000 : 30_000, needs: lack) { peer, directory in
            let seed = UInt64.random(in: 0...0xFFFF)
            try peer.connect(self, delay: 0.15, loss: 0.02, reordering: 0.05, seed: seed)
            let download = manager.enqueue(try download("/fast/file", to: directory, timeout: 20))
            let requests = try (0..<20).map { _ in try request(timeout: 20) }
            try eventually(timeout: 110, "\(download)") { download.isFinished && requests.allSatisfy(\.isFinished) }
            XCTAssertNil(download.error)
            for request in requests {
                XCTAssertEqual(request.responseString, "hello", "\(String(describing: request.error))")
            }
            try expectFile(peer, directory)
            let said = peer.relayOutput
            print("a relay with 300 ms, seed \(seed): \(said.split(separator: "\n").last ?? "")")
            XCTAssertFalse(said.contains(" late 0"), said)
        }
    }

    func testALinkThatGoesAwayInMidTransferHoldsItUpAndNothingStartsOver() throws {
        try withPeer(size: isWhole ? 2_000_000 : 400_000) { peer, directory in
            try peer.connect(self)
            let near = try Listener(
                NetworkReachabilityManager(address: PeerHost.address, queue: DispatchQueue(label: "near")))
            let download = manager.enqueue(try download(to: directory, timeout: 30))
            try awaitSome(of: download, peer)
            try ip("link set v0 down")
            try near.hears(.notReachable)
            // Nothing is received while the link is down, so the test cannot wait for an event.
            Thread.sleep(forTimeInterval: isWhole ? 3 : 1)
            XCTAssertFalse(download.isFinished)
            try ip("link set v0 up")
            try near.hears(.reachableViaWire)
            try eventually(timeout: 60) { download.isFinished }
            XCTAssertNil(download.error)
            try expectFile(peer, directory)
            try eventually { peer.requests.count == 1 }
            XCTAssertEqual(peer.requests.map(\.range), ["-"])
        }
    }

    func testAPeerThatDisappearsWithoutAWordEndsATransferInItsTimeAndALaterOneGoesOn() throws {
        try withPeer(size: 400_000) { peer, directory in
            try peer.connect(self)
            let before = try request()
            try eventually { before.isFinished }
            XCTAssertEqual(before.responseString, "hello")
            let first = manager.enqueue(try download(to: directory))
            try awaitSome(of: first, peer)
            try peer.run("ip", "route", "add", "blackhole", "192.0.2.2/32")
            // Send one request over the existing connection, and one over a new connection.
            let lost = try (0..<2).map { _ in try request() }
            try eventually { first.isFinished && lost.allSatisfy(\.isFinished) }
            for operation in [first] + lost { XCTAssertEqual((operation.error as? URLError)?.code, .timedOut) }
            try peer.run("ip", "route", "del", "blackhole", "192.0.2.2/32")
            let after = try request()
            let second = manager.enqueue(try download(to: directory))
            try eventually(timeout: 20) { after.isFinished && second.isFinished }
            XCTAssertEqual(after.responseString, "hello", "\(String(describing: after.error))")
            XCTAssertNil(second.error)
            try expectFile(peer, directory)
            try eventually { peer.requests.contains { $0.status == "206" } }
            let rest = try XCTUnwrap(peer.requests.first { $0.status == "206" })
            XCTAssertTrue(rest.count < peer.bytes.count - 50_000, "\(peer.requests)")
        }
    }

    func testAnAddressThatChangesInMidTransferCostsOneTryAndNothingThatHasArrived() throws {
        try withPeer(size: 400_000) { peer, directory in
            try peer.connect(self)
            let near = try Listener(
                NetworkReachabilityManager(address: PeerHost.address, queue: DispatchQueue(label: "near")))
            let download = manager.enqueue(try download(to: directory, retries: true))
            try awaitSome(of: download, peer)
            try ip("addr del 192.0.2.2/24 dev v0")
            try near.hears(.notReachable)
            try ip("addr add 192.0.2.3/24 dev v0")
            try near.hears(.reachableViaWire)
            try eventually(timeout: 30) { download.isFinished }
            XCTAssertNil(download.error)
            XCTAssertEqual(download.retryCount, 1)
            try expectFile(peer, directory)
            try eventually { peer.requests.contains { $0.status == "206" } }
            let rest = try XCTUnwrap(peer.requests.first { $0.status == "206" })
            XCTAssertTrue(rest.count < peer.bytes.count - 50_000, "\(peer.requests)")
        }
    }
}
