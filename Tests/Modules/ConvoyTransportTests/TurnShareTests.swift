import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that the share of a transfer in each turn of the run loop is bounded.
@Suite struct TurnShareTests {
    /// A counter of the turns of a thread's loop, and of the bytes that its transfers receive in each.
    private final class TurnCounter: Sendable {
        struct Counts {
            var turns = 0
            var bytes = 0
            var most = 0
            var total = 0
            var isOver = false
        }

        let counts = Locked(Counts())

        /// Begins a turn, and passes a block to the thread that runs in the next turn.
        func beginTurn(of thread: NetworkThread) {
            let isOver = counts.withLock { counts in
                counts.turns += 1
                counts.bytes = 0
                return counts.isOver
            }
            if !isOver { thread.perform { self.beginTurn(of: thread) } }
        }

        func note(_ count: Int) {
            counts.withLock { counts in
                counts.bytes += count
                counts.total += count
                counts.most = max(counts.most, counts.bytes)
            }
        }
    }

    private final class Counting: ConnectionDelegate {
        let counter: TurnCounter
        let ended = DispatchSemaphore(value: 0)
        let error = Locked<URLError?>(nil)

        init(_ counter: TurnCounter) { self.counter = counter }

        func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) { counter.note(data.count) }
        func connection(
            _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
        ) {
            counter.note(count)
        }
        func connectionDidFinish(_ connection: any Connection) { ended.signal() }
        func connection(_ connection: any Connection, didFailWith failure: URLError) {
            error.withLock { $0 = failure }
            ended.signal()
        }
        func connectionDidCancel(_ connection: any Connection) { ended.signal() }
    }

    /// The handling of a transfer's bytes.
    enum Kind: CaseIterable {
        case download, downloadHTTP2, upload, uploadHTTP2
        /// A body that decoding expands a thousandfold.
        case decoded, decodedHTTP2
        /// A stored response in memory, unencoded and encoded.
        case replayed, replayedEncoded

        var isSecure: Bool { [.downloadHTTP2, .uploadHTTP2, .decodedHTTP2].contains(self) }
        var isUpload: Bool { [.upload, .uploadHTTP2].contains(self) }
        var isDecoded: Bool { [.decoded, .decodedHTTP2, .replayedEncoded].contains(self) }
        var isReplayed: Bool { [.replayed, .replayedEncoded].contains(self) }
    }

    private static let size = 32 << 20

    /// Runs equal transfers on one thread, and returns the maximum number of bytes that they move in a turn.
    private func mostInTurn(_ kind: Kind, transfers: Int = 1) throws -> Int {
        let nginx = try Nginx()
        let body = kind.isDecoded ? Data(count: Self.size) : PatternBytes.data(count: Self.size)
        let name = try nginx.add(kind.isUpload ? Data() : body, as: "large").lastPathComponent
        let path = kind.isUpload ? "upload" : kind.isDecoded ? "gzip/\(name)" : name
        var request = URLRequest(url: kind.isSecure ? nginx.secureURL(path) : nginx.url(path))
        if kind.isUpload {
            request.httpMethod = "PUT"
            request.httpBody = body
        }
        var configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        configuration.maximumExpansion = nil
        if kind.isReplayed {
            let bytes = kind.isDecoded ? try Encoders.gzip(Array(body)) : Array(body)
            configuration.cache = ResponseCacheReference(
                StoredBody(bytes, fields: kind.isDecoded ? [("Content-Encoding", "gzip")] : []))
        }
        let (thread, counter) = (NetworkThread(), TurnCounter())
        defer { counter.counts.withLock { $0.isOver = true } }
        _ = thread.perform { counter.beginTurn(of: thread) }
        let delegates = (0..<transfers).map { _ in Counting(counter) }
        for delegate in delegates {
            RequestChain(request: request, configuration: configuration, delegate: delegate, thread: thread).start()
        }
        for delegate in delegates {
            try delegate.ended.waitOrThrow(timeout: 60)
            #expect(delegate.error.withLock { $0 } == nil)
        }
        return counter.counts.withLock { counts in
            #expect(counts.total == Self.size * transfers)
            return counts.most
        }
    }

    /// A share is rounded up to complete reads, blocks and pieces.
    private static let piece = max(ConnectionConfiguration().receiveBufferSize, ContentDecoder.blockSize, 128 << 10)

    @Test(arguments: Kind.allCases)
    func `a fast transfer moves a bounded number of bytes in a turn`(kind: Kind) throws {
        // The events of a turn are handled before the block that counts it, so two shares may fall into one count.
        let most = try mostInTurn(kind)
        #expect(most <= 2 * (TurnShares.share + Self.piece), "\(most) bytes")
    }

    // The streams of an HTTP/2 connection share the bytes of one read.
    @Test(arguments: Kind.allCases.filter { !$0.isSecure })
    func `fast transfers together move a bounded number of bytes in a turn`(kind: Kind) throws {
        let most = try mostInTurn(kind, transfers: 6)
        #expect(most <= 2 * (TurnShares.total + 6 * (TurnShares.smallShare + Self.piece)), "\(most) bytes")
    }

    @Test(arguments: [false, true])
    func `a transfer that yields before its last bytes completes`(isSecure: Bool) throws {
        let nginx = try Nginx()
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        for size in stride(from: 100_000, through: 600_000, by: isSecure ? 39_973 : 9_973) {
            let name = "\(size)"
            try nginx.add(PatternBytes.data(count: size), as: name)
            // No other event wakes the loop, because turns are not counted.
            var request = URLRequest(url: isSecure ? nginx.secureURL(name) : nginx.url(name))
            request.timeoutInterval = 10
            let heard = try #require(load(request, configuration: configuration, thread: NetworkThread()))
            #expect(heard.isFinished && heard.body.count == size, "\(size): \(heard.ends)")
        }
    }
}

/// A cache that has one response for all requests.
private final class StoredBody: ResponseCache, ResponseCacheExchange, ServableResponse {
    let head: CachedHead
    let length: Int
    let bytes: [UInt8]?
    let use = StoredUse.fresh
    let salt = ""
    let needsHead = false

    init(_ bytes: [UInt8], fields: [(name: String, value: String)]) {
        head = CachedHead(statusCode: 200, fields: fields)
        (self.bytes, length) = (bytes, bytes.count)
    }

    func begin(_ request: CacheRequest) -> any ResponseCacheExchange { self }
    func lookUp() -> CacheAnswer? { .hit(self, revalidates: false) }
    func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void) { then(.hit(self, revalidates: false)) }
    func willSend() {}
    func receive(_ head: CachedHead) -> CacheReaction { .pass }
    func failed() -> (any ServableResponse)? { nil }
    func cancel() {}
    func read(at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        then(.failure(POSIXError(.ENOENT)))
    }
}
