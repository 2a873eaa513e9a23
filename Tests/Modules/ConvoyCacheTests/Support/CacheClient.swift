@testable import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A client that uses a cache like an engine, without a network: the origin is a closure.
final class CacheClient: Sendable {
    typealias Fields = [(name: String, value: String)]

    struct Reply: Sendable {
        var status = 200
        var fields: Fields = []
        var body: [UInt8] = []
        /// The number of bytes of the body that arrive before the connection is cut.
        var cut: Int?
    }

    struct Seen: Sendable {
        enum Source: Sendable, Hashable {
            case network
            case cache(StoredUse)
        }

        var status: Int
        var fields: Fields
        var body: [UInt8]
        var source: Source
        var text: String { String(decoding: body, as: UTF8.self) }

        func value(_ name: String) -> String? {
            fields.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    /// Sends a request to the origin, including fields added by the cache; nil if the connection fails.
    typealias Origin = @Sendable (_ method: String, _ address: String, _ fields: Fields) -> Reply?

    enum Failure: Error, Hashable {
        case network
        case unavailable(CacheUnavailable)
        case cut
        case body(CacheError)
    }

    let cache: HTTPCache
    let origin: Origin

    init(_ cache: HTTPCache, _ origin: @escaping Origin) {
        self.cache = cache
        self.origin = origin
    }

    func get(
        _ address: String, _ fields: Fields = [], method: String = "GET", policy: CachePolicy = .protocolPolicy,
        partition: String = "", hasBody: Bool = false, handler: CacheResponseHandler? = nil
    ) async throws(Failure) -> Seen {
        let request = CacheRequest(
            method: method, address: address, fields: fields, policy: policy, partition: partition, hasBody: hasBody)
        let exchange = cache.exchange(for: request, handler: handler)
        switch await answer(exchange) {
        case .unavailable(let reason): throw .unavailable(reason)
        case .hit(let stored, let revalidates):
            if revalidates {
                _ = try? await get(address, fields, method: method, policy: .reloadRevalidating, partition: partition)
            }
            return try await read(stored)
        case .miss: return try await send(exchange, request, [])
        case .validate(let added):
            // Caches represent text with one character per byte.
            let fields = added.map { ($0.name, String(String.UnicodeScalarView($0.value.map { Unicode.Scalar($0) }))) }
            return try await send(exchange, request, fields)
        }
    }

    private func answer(_ exchange: CacheExchange) async -> CacheAnswer {
        await Self.handedOver { exchange.lookup($0) }
    }

    private final class Handover<Value: Sendable>: Sendable {
        let value = Locked<Value?>(nil)
    }

    /// Returns the value passed to a callback. It uses a lock, because the thread sanitizer cannot track values passed
    /// through a continuation.
    private static func handedOver<Value: Sendable>(_ body: (@escaping @Sendable (Value) -> Void) -> Void) async -> Value {
        let handover = Handover<Value>()
        while true {
            await withCheckedContinuation { continuation in
                body { value in
                    handover.value.withLock { $0 = value }
                    continuation.resume()
                }
            }
            if let value = handover.value.withLock({ $0 }) { return value }
        }
    }

    private func send(
        _ exchange: CacheExchange, _ request: CacheRequest, _ added: Fields
    ) async throws(Failure) -> Seen {
        exchange.willSend()
        guard let reply = origin(request.method, request.address, request.fields + added) else {
            guard let stored = exchange.failed() else { throw .network }
            return try await read(stored)
        }
        switch exchange.receive(CachedHead(statusCode: reply.status, fields: reply.fields)) {
        case .pass: break
        case .serveStored(let stored): return try await read(stored)
        case .store(let writer):
            let arrived = reply.cut.map { Array(reply.body.prefix($0)) } ?? reply.body
            for start in stride(from: 0, to: arrived.count, by: 10_000) {
                arrived[start..<min(start + 10_000, arrived.count)].withUnsafeBytes { writer.write($0) }
            }
            if reply.cut != nil {
                writer.abandon()
            } else {
                await withCheckedContinuation { continuation in writer.finish { continuation.resume() } }
            }
        }
        if reply.cut != nil { throw .cut }
        return Seen(status: reply.status, fields: reply.fields, body: reply.body, source: .network)
    }

    private func read(_ stored: any ServableResponse) async throws(Failure) -> Seen {
        var body: [UInt8] = []
        if let bytes = stored.bytes {
            body = bytes
        } else {
            while body.count < stored.length {
                let offset = body.count
                let result: Result<[UInt8], any Error> = await Self.handedOver { done in
                    stored.read(at: offset, count: 50_000) { done($0) }
                }
                switch result {
                case .success(let bytes): body += bytes
                case .failure(let error): throw .body(error as? CacheError ?? .unreadable(reason: "\(error)"))
                }
            }
        }
        return Seen(
            status: stored.head.statusCode, fields: stored.head.allFields, body: body, source: .cache(stored.use))
    }
}
