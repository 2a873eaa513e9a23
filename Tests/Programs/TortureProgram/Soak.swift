import ConvoyCache
import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Sends a long, mixed series of requests of every kind: errors, redirects, pauses, cancels, retries, streams, both
/// protocols, a cache, cookies and tokens. Prints the resources of the process after each tenth of the requests.
final class Soak: Sendable {
    /// The number of concurrent requests.
    private static let width = 32

    private let server: URL, secureServer: URL, folder: URL
    private let manager: HTTPRequestOperationManager
    private let authenticated: HTTPRequestOperationManager
    private let next = Locked(0)
    private let ends = Locked((begun: 0, ended: 0, twice: 0))

    /// - Parameters:
    ///   - server: The URL of an nginx server in front of a test server.
    ///   - secureServer: The URL of the same server over HTTP/2.
    init(server: URL, secureServer: URL, authority: URL, folder: URL) throws {
        (self.server, self.secureServer, self.folder) = (server, secureServer, folder)
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .file(authority)
        var retries = RetryPolicy(maximumRetryCount: 1)
        retries.initialDelay = 0.001
        let managers = (0..<2).map { _ in HTTPRequestOperationManager(baseURL: server, completionQueue: .global()) }
        for manager in managers {
            manager.securityPolicy = policy
            manager.retryPolicy = retries
        }
        (manager, authenticated) = (managers[0], managers[1])
        manager.cookieStore = try CookieStore(file: folder.appendingPathComponent("cookies"))
        manager.cache = try HTTPCache(
            directory: folder.appendingPathComponent("cache"), diskCapacity: 4 << 20, memoryCapacity: 1 << 18)
        // A token is valid for only a few requests.
        let tokens = Locked(0)
        authenticated.authenticator = Authenticator(token: nil, leeway: 0, limit: .max) { _ in
            AccessToken("t\(tokens.withLock { $0 += 1; return $0 })", expiresIn: 0.05)
        }
    }

    /// Sends the requests and returns whether each operation ended once.
    func run(_ count: Int) async throws -> Bool {
        let tenth = max(1, count / 10)
        for part in 1...10 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<Self.width {
                    group.addTask { [self] in
                        while let number = next.withLock({ next -> Int? in
                            guard next < part * tenth else { return nil }
                            next += 1
                            return next - 1
                        }) {
                            try await request(number)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let state = ends.withLock { $0 }
            print("\(state.begun) begun \(state.ended) ended \(state.twice) twice \(Self.process())")
            fflush(nil)
        }
        let state = ends.withLock { $0 }
        return state.begun == state.ended && state.twice == 0
    }

    private func request(_ number: Int) async throws {
        var base = server, path = "small"
        var method = HTTPMethod.get
        switch number % 40 {
        case 0..<14: break
        case 14..<20: base = secureServer
        case 20: path = "json"
        case 21: path = "moved"
        case 22: path = "nowhere"
        case 23: path = "forward/broken"
        case 24: path = "forward/busy"
        case 25, 26: path = "forward/cached/\(number % 7)"
        case 27: (base, path) = (secureServer, "forward/cached/\(number % 5)")
        case 28: (method, path) = (.post, "upload")
        case 29: path = "forward/cookies"
        default: break
        }
        let url = base.appendingPathComponent(path)
        switch number % 40 {
        case 30, 31:
            // The stream is read to its end or abandoned.
            guard
                let result = try? await manager.bytes(
                    .get, secureServer.appendingPathComponent("forward/long").absoluteString)
            else { return }
            var count = 0
            do {
                for try await _ in result.0 {
                    count += 1
                    if number % 80 == 31, count > 10_000 { break }
                }
            } catch {}
        case 32, 33:
            _ = try? await carryOut(authenticated.makeOperation(.get, "forward/token"), by: authenticated)
        case 34:
            let operation = try manager.makeOperation(.get, "forward/long")
            operation.responseSerializer = HTTPResponseSerializer()
            operation.downloadProgressHandler = { [weak operation] _, _, _ in
                operation?.downloadProgressHandler = nil
                operation?.pause()
                operation?.resume()
            }
            _ = await carryOut(operation, by: manager)
        case 35, 36:
            let operation = try manager.makeOperation(
                .get, secureServer.appendingPathComponent("forward/long").absoluteString)
            operation.responseSerializer = HTTPResponseSerializer()
            operation.downloadProgressHandler = { [weak operation] _, _, _ in operation?.cancel() }
            if number % 80 < 40 { operation.cancel() }
            _ = await carryOut(operation, by: manager)
        case 37:
            let first = try manager.makeOperation(.get, "small"), second = try manager.makeOperation(.get, "nowhere")
            second.addDependency(first)
            for operation in [first, second] { operation.responseSerializer = HTTPResponseSerializer() }
            async let one: Void = carryOut(second, by: manager)
            await carryOut(first, by: manager)
            _ = await one
        default:
            let operation = try manager.makeOperation(method, url.absoluteString)
            operation.responseSerializer = HTTPResponseSerializer()
            await carryOut(operation, by: manager)
        }
    }

    private func carryOut(_ operation: HTTPRequestOperation, by manager: HTTPRequestOperationManager) async {
        ends.withLock { $0.begun += 1 }
        let count = Locked(0)
        let end: @Sendable () -> Void = { [self] in
            let isFirst = count.withLock {
                $0 += 1; return $0 == 1
            }
            ends.withLock { isFirst ? ($0.ended += 1) : ($0.twice += 1) }
        }
        await withCheckedContinuation { continuation in
            operation.setCompletionHandler(
                success: { _, _ in
                    end()
                    continuation.resume()
                },
                failure: { _, _ in
                    end()
                    continuation.resume()
                })
            manager.enqueue(operation)
        }
    }

    /// Returns the resources of the process: resident KiB, descriptors and threads. Excludes free memory that the
    /// allocator has kept from an earlier peak.
    private static func process() -> String {
        typealias Trim = @convention(c) (Int) -> Int32
        if let symbol = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(symbol, to: Trim.self)(0) }
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        func number(_ name: String) -> String {
            status.split(separator: "\n").first { $0.hasPrefix(name) }?.filter(\.isNumber).description ?? "?"
        }
        let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        return "\(number("VmRSS:")) KiB \(descriptors) descriptors \(number("Threads:")) threads"
    }
}
