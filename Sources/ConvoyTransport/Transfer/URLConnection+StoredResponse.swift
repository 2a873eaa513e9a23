import ConvoySupport
import Foundation
import FoundationNetworking

/// Delivers stored responses in the same way as responses from the network.
extension URLConnection {
    /// Delivers a stored response instead of an error, if the cache provides one (RFC 5861, section 4). Returns whether
    /// the cache provides one.
    func servesStale(insteadOf error: URLError) -> Bool {
        guard let cache = exchange.cache, exchange.replay == nil, !exchange.head.isWhole, !isCancelled, error.isOfNetwork
        else { return false }
        switch phase {
        case .loading, .waitingForDescriptor: break
        default: return false
        }
        guard let stored = cache.failed() else { return false }
        traceFailure(error)
        replay(stored)
        return true
    }

    /// Delivers a stored response.
    func replay(_ stored: any ServableResponse) {
        finishTransaction()
        handle?.trace?.note("served from the cache: \(stored.use.rawValue)")
        if let handle { thread.multi?.giveBack(handle) }
        handle = nil
        replaceExchange(with: Exchange(StoredResponseDelivery(stored), insteadOf: exchange))
        phase = .loading
        noteStartOfReplay()
        pump()
    }

    /// Continues to deliver a stored response until it is held back or a file must be read.
    func pump() {
        while let replay = exchange.replay {
            if isCancelled { return }
            switch phase {
            case .following(let request):
                finishTransaction()
                return follow(request)
            case .loading: break
            default: return
            }
            if let failure = exchange.response.failure { return fail(failure) }
            guard exchange.flow.isFree else {
                updateFlow(.refused)
                return
            }
            if exchange.flow.hasKept {
                drain()
            } else if replay.isAtEnd || exchange.request.method == "HEAD" {
                if !replay.hasBegun { begin(replay) } else { return finishReplay() }
            } else if !replay.hasBytes {
                return read(replay)
            } else if !replay.hasBegun {
                begin(replay)
            } else {
                replay.deliver { bytes in
                    if let decoder = exchange.response.decoder {
                        deliver(with: decoder) { try $0.decode(bytes, into: $1) }
                    } else {
                        delegate?.connection(self, didReceive: bytes)
                        charge(bytes.count)
                    }
                }
            }
        }
    }

    /// Processes the stored head like a head from the network.
    private func begin(_ replay: StoredResponseDelivery) {
        replay.hasBegun = true
        let response = ResponseHead(
            replay.stored.head, of: exchange.request, length: replay.stored.length, use: CacheUse(replay.stored.use))
        do throws(URLError) {
            if let redirect = try redirect(of: response) {
                _ = ask(about: redirect)
                return
            }
            try prepareToDecode(response.codings, of: response)
            delegate?.connection(self, didReceive: response)
        } catch {
            exchange.response.failure = error
        }
    }

    private func read(_ replay: StoredResponseDelivery) {
        guard !replay.isReading else { return }
        replay.read { result in
            self.thread.perform {
                guard self.exchange.replay === replay else { return }
                switch result {
                case .success(let bytes) where !bytes.isEmpty:
                    replay.take(bytes)
                    self.pump()
                case .success: self.lose(replay, nil)
                case .failure(let error): self.lose(replay, error)
                }
            }
        }
    }

    /// Handles a stored body that cannot be read: sends the request if nothing has been delivered yet.
    private func lose(_ replay: StoredResponseDelivery, _ error: (any Error)?) {
        // Include the time spent on the stored response in the metrics of the network's response.
        if replay.hasBegun { finishTransaction() } else { exchange.start = replay.start }
        exchange.replay = nil
        guard !replay.hasBegun, !isCancelled else {
            return fail(failure(.networkConnectionLost, "The cached body cannot be read.", underlying: error))
        }
        // After the second loss, the cache is no longer consulted.
        exchange.lostReplays += 1
        guard exchange.lostReplays < 2 || exchange.request.cachePolicy != .storedOnly else {
            return fail(failure(.resourceUnavailable, "The cached body cannot be read.", underlying: error))
        }
        load(Exchange(again: exchange))
    }

    private func finishReplay() {
        finishTransaction()
        exchange.replay = nil
        do {
            try exchange.response.decoder?.finish()
        } catch {
            return fail(decodingFailure(error))
        }
        end { $0.connectionDidFinish(self) }
    }
}

extension URLError {
    /// Whether the server could not be reached, as opposed to a local decision not to connect to it.
    fileprivate var isOfNetwork: Bool {
        switch code {
        case .timedOut, .cannotFindHost, .cannotConnectToHost, .networkConnectionLost, .dnsLookupFailed,
            .notConnectedToInternet, .badServerResponse:
            true
        default: false
        }
    }
}

/// The delivery of a stored response. Its mutable state is used on the network thread only.
final class StoredResponseDelivery: @unchecked Sendable {
    /// The number of bytes delivered from memory in one step.
    private static let portion = TurnShares.share
    /// The number of bytes read from a file in one step.
    private static let portionOfFile = 256 << 10

    let stored: any ServableResponse
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

    init(_ stored: any ServableResponse) {
        self.stored = stored
        memory = stored.bytes
    }

    var isAtEnd: Bool { position >= stored.length }

    /// The status of the response; nil until delivery has begun.
    var statusCode: Int? { hasBegun ? stored.head.statusCode : nil }

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
            let end = min(stored.length, bytes.count, start + Self.portion)
            position = end > start ? end : stored.length
            bytes.withUnsafeBytes { receiver(UnsafeRawBufferPointer(rebasing: $0[start..<end])) }
        }
    }

    /// Reads the next bytes. `then` is called on a queue of the cache, with an error if no bytes can be read.
    func read(_ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        isReading = true
        stored.read(at: position, count: min(Self.portionOfFile, stored.length - position), then)
    }

    /// Stores the bytes that have been read.
    func take(_ bytes: [UInt8]) {
        isReading = false
        chunk = bytes
    }
}
