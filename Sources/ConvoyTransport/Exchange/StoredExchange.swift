import ConvoySupport
import Foundation
import FoundationNetworking

/// The exchange with the cache: delivers a stored response in the same way as a response from the network. Its mutable
/// state is used on the network thread only.
final class StoredExchange: @unchecked Sendable {
    /// The number of bytes delivered from memory in one step.
    private static let portion = TurnShares.share
    /// The number of bytes read from a file in one step.
    private static let portionOfFile = 256 << 10

    let response: any ServableResponse
    /// The body, if it is in memory. A partial body is copied once.
    private let memory: [UInt8]?
    private(set) var position = 0
    /// The bytes that have been read and will be delivered next.
    private var chunk: [UInt8]?
    private(set) var isReading = false
    /// The time at which the cache was consulted; nil if metrics are not collected or have already been reported.
    @exclusivity(unchecked) var start: StartMoment?
    /// Whether the stored head has been passed on, after which the response cannot be requested again.
    var hasBegun = false

    init(_ response: any ServableResponse) {
        self.response = response
        memory = response.bytes
    }

    var isAtEnd: Bool { position >= response.length }

    /// The status of the response; nil until delivery has begun.
    var statusCode: Int? { hasBegun ? response.head.statusCode : nil }

    /// Whether bytes can be delivered without reading a file.
    var hasBytes: Bool { chunk != nil || memory != nil }

    /// Delivers the next bytes, which must be available.
    func deliver(to receiver: (UnsafeRawBufferPointer) -> Void) {
        if let chunk {
            self.chunk = nil
            position += chunk.count
            chunk.withUnsafeBytes(receiver)
        } else if let bytes = memory {
            let start = min(position, bytes.count)
            let end = min(response.length, bytes.count, start + Self.portion)
            position = end > start ? end : response.length
            bytes.withUnsafeBytes { receiver(UnsafeRawBufferPointer(rebasing: $0[start..<end])) }
        }
    }

    /// Reads the next bytes. `then` is called on a queue of the cache, with an error if no bytes can be read.
    func read(_ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        isReading = true
        response.read(at: position, count: min(Self.portionOfFile, response.length - position), then)
    }

    /// Stores the bytes that have been read.
    func take(_ bytes: [UInt8]) {
        isReading = false
        chunk = bytes
    }

    // MARK: Delivering

    /// Continues to deliver the response until it is held back or a file must be read.
    func pump(_ chain: RequestChain) {
        while chain.step.stored === self {
            guard !chain.isCancelled else { return }
            switch chain.phase {
            case .loading: break
            case .draining(.request(let request)): return chain.follow(request)
            default: return
            }
            if let failure = chain.step.failure { return chain.fail(failure) }
            guard chain.step.flow.isFree else {
                chain.updateFlow(.refused)
                return
            }
            if chain.step.flow.hasKept {
                chain.drain()
            } else if isAtEnd || chain.step.request.method == "HEAD" {
                if hasBegun { return chain.complete() } else { begin(chain) }
            } else if !hasBytes {
                return read(chain)
            } else if !hasBegun {
                begin(chain)
            } else {
                deliver { chain.receiveStored($0) }
            }
        }
    }

    /// Processes the stored head like a head from the network.
    private func begin(_ chain: RequestChain) {
        hasBegun = true
        let head = ResponseHead(
            response.head, of: chain.step.request, length: response.length, use: CacheUse(response.use))
        do throws(URLError) {
            if let redirect = try chain.redirect(of: head) {
                _ = chain.ask(about: redirect)
                return
            }
            try chain.prepareToDecode(head.codings, of: head)
            chain.deliver(head)
        } catch {
            chain.step.failure = error
        }
    }

    private func read(_ chain: RequestChain) {
        guard !isReading else { return }
        read { result in
            chain.thread.begin(
                .block {
                    guard chain.step.stored === self else { return }
                    switch result {
                    case .success(let bytes) where !bytes.isEmpty:
                        self.take(bytes)
                        self.pump(chain)
                    case .success: self.lose(nil, chain)
                    case .failure(let error): self.lose(error, chain)
                    }
                })
        }
    }

    /// Handles a stored body that cannot be read: sends the request if nothing has been delivered yet.
    private func lose(_ error: (any Error)?, _ chain: RequestChain) {
        // Include the time spent on the stored response in the metrics of the network's response.
        if hasBegun { chain.finishTransaction() } else { chain.step.start = start }
        chain.step.stored = nil
        guard !hasBegun, !chain.isCancelled else {
            return chain.fail(chain.failure(.networkConnectionLost, "The cached body cannot be read.", underlying: error))
        }
        // After the second loss, the cache is no longer consulted.
        chain.step.lostBodies += 1
        guard chain.step.lostBodies < 2 || chain.step.request.cachePolicy != .storedOnly else {
            return chain.fail(chain.failure(.resourceUnavailable, "The cached body cannot be read.", underlying: error))
        }
        chain.load(ChainStep(again: chain.step))
    }
}
