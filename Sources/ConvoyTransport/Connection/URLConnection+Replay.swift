import ConvoySupport
import Foundation
import FoundationNetworking

/// Delivers stored responses in the same way as those of the network.
extension URLConnection {
    /// Delivers a stored response instead of an error, if the cache has one for this case (RFC 5861, section 4).
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
        replaceExchange(with: Exchange(Replay(stored), insteadOf: exchange))
        phase = .loading
        noteStartOfReplay()
        pump()
    }

    /// Continues the delivery of a stored response, until it is held up, or a file must be read.
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

    /// Processes the stored head like one from the network.
    private func begin(_ replay: Replay) {
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

    private func read(_ replay: Replay) {
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

    /// Handles a stored body that cannot be read: sends the request, if nothing has been delivered.
    private func lose(_ replay: Replay, _ error: (any Error)?) {
        // The time of the network's response includes this.
        if replay.hasBegun { finishTransaction() } else { exchange.start = replay.start }
        exchange.replay = nil
        guard !replay.hasBegun, !isCancelled else {
            return fail(failure(.networkConnectionLost, "The stored body cannot be read.", underlying: error))
        }
        // The second time the cache is not asked.
        exchange.lostReplays += 1
        guard exchange.lostReplays < 2 || exchange.request.cachePolicy != .storedOnly else {
            return fail(failure(.resourceUnavailable, "The stored body cannot be read.", underlying: error))
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
    /// Whether the server could not be reached, as opposed to a refusal to connect to it.
    fileprivate var isOfNetwork: Bool {
        switch code {
        case .timedOut, .cannotFindHost, .cannotConnectToHost, .networkConnectionLost, .dnsLookupFailed,
            .notConnectedToInternet, .badServerResponse:
            true
        default: false
        }
    }
}

/// The delivery of a stored response. Its mutable state belongs to the network thread.
final class Replay: @unchecked Sendable {
    /// How many bytes are delivered at once from memory.
    private static let portion = TurnShares.share
    /// How many bytes are read at once from a file.
    private static let portionOfFile = 256 << 10

    let stored: any ServableResponse
    /// The body, if it is in memory. A part of a body is copied out of it, once.
    private let memory: [UInt8]?
    private(set) var position = 0
    /// Bytes that were read and are delivered next.
    private var chunk: [UInt8]?
    private(set) var isReading = false
    /// When the cache was asked; nil if that is not measured, and after its metrics were reported.
    @exclusivity(unchecked) var start: StartMoment?
    /// Whether the response was delivered.
    var hasBegun = false

    init(_ stored: any ServableResponse) {
        self.stored = stored
        memory = stored.bytes
    }

    var isAtEnd: Bool { position >= stored.length }

    /// The status of the response; nil until it was delivered.
    var statusCode: Int? { hasBegun ? stored.head.statusCode : nil }

    /// Whether bytes can be delivered without reading a file.
    var hasBytes: Bool { chunk != nil || memory != nil }

    /// Passes on the next bytes, of which there must be some.
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

    /// Reads the next bytes. `then` is called on a queue of the cache with a closure for the network thread, which
    /// returns an error if there are no bytes.
    func read(_ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        isReading = true
        stored.read(at: position, count: min(Self.portionOfFile, stored.length - position), then)
    }

    /// Stores the bytes that were read.
    func take(_ bytes: [UInt8]) {
        isReading = false
        chunk = bytes
    }
}
