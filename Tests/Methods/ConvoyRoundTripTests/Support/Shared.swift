import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// The httpbin server shared by this run. It takes a second to start, and has no state.
enum Shared {
    private static let server = Result {
        var servers = [try Httpbin()]
        // If an earlier server on this port requested authentication, credentials would be sent preemptively.
        while let last = servers.last, ConnectionConfiguration().isAsked(about: Target(last.url)) {
            servers.append(try Httpbin())
        }
        let server = servers.removeLast()
        for other in servers { other.stop() }
        // A shared object is never released, so its directory must be removed at exit.
        atexit { try? Shared.httpbin().stop() }
        return server
    }

    static func httpbin() throws -> Httpbin { try server.get() }

    /// Returns a manager for httpbin, whose handlers do not use the main queue.
    static func manager() throws -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: try httpbin().url)
        manager.completionQueue = DispatchQueue(label: "Convoy.RoundTrips")
        return manager
    }

    /// Returns a file of the httpbin package that the server serves.
    static func template(_ name: String) throws -> Data {
        let venv = URL(fileURLWithPath: ProcessInfo.processInfo.environment["CONVOY_HTTPBIN_VENV"] ?? "")
        let found = try ProcessRunner.run(
            venv.appendingPathComponent("bin/python").path,
            ["-c", "import os, httpbin; print(os.path.dirname(httpbin.__file__), end='')"])
        return try Data(contentsOf: URL(fileURLWithPath: found.text).appendingPathComponent("templates/\(name)"))
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the suite, with the reason, if httpbin is not installed.
    static var needsHttpbin: Self { .enabled(if: Httpbin.isInstalled, "needs \(Httpbin.installHint)") }
}

extension HTTPRequestOperationManager {
    /// Sends a request with a raw body, and returns the finished operation, whose `responseSerializer` creates the
    /// object.
    func send(
        _ method: HTTPMethod, _ path: String, body: Data? = nil, headers: [String: String?] = [:],
        _ change: (HTTPRequestOperation) throws -> Void = { _ in }
    ) async throws -> HTTPRequestOperation {
        var request = try HTTPRequestSerializer().request(
            method: method, url: try url(for: path), parameters: nil, headers: headers)
        if let body { request.httpBody = body }
        let operation = makeOperation(request: request)
        try change(operation)
        try await enqueue(operation).finished()
        return operation
    }

    /// Sends a request like `response`, but returns the error of a request that should fail.
    func failure(
        _ method: HTTPMethod, _ path: String, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        _ change: (HTTPRequestOperation) throws -> Void = { _ in }
    ) async throws -> (operation: HTTPRequestOperation, error: (any Error)?) {
        let operation = try makeOperation(method, path, parameters: parameters, headers: headers)
        try change(operation)
        do {
            try await enqueue(operation).finished()
            return (operation, nil)
        } catch {
            return (operation, error)
        }
    }
}

/// Returns the time on the monotonic clock.
func secondsSince(_ start: DispatchTime) -> Double {
    Double(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds) / 1e9
}
