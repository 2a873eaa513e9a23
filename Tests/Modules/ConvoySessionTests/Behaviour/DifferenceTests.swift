import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Differences between the managers. Both send each request in all forms; the server must receive the same request, and
/// the caller must get the same result.
@Suite struct DifferenceTests {
    private struct Trial: Sendable {
        let name: String
        let method: HTTPMethod
        let url: String
        var parameters: [String: any Sendable]?
        var headers: [String: String?] = [:]
        var timeout: RequestTimeout?
        var change: @Sendable (any HTTPManager) -> Void = { _ in }
    }

    private static let trials: [Trial] = [
        Trial(name: "query", method: .get, url: "echo", parameters: ["a": 1, "b": ["x", "y"], "c": true]),
        Trial(name: "form", method: .post, url: "echo", parameters: ["a": "ä ö", "b": ["c": 1.5]]),
        Trial(
            name: "JSON", method: .patch, url: "echo", parameters: ["a": [1, 2], "b": NSNull()],
            change: { $0.requestSerializer = JSONRequestSerializer() }),
        Trial(
            name: "property list", method: .put, url: "echo", parameters: ["a": "x"],
            change: { $0.requestSerializer = PropertyListRequestSerializer() }),
        Trial(name: "absolute path", method: .get, url: "/v1/echo?x=1#fragment"),
        Trial(name: "a path with a space", method: .delete, url: "echo/a b"),
        Trial(name: "head", method: .head, url: "echo"),
        Trial(
            name: "header fields", method: .get, url: "echo", headers: ["X-A": "1", "Accept": "text/x", "User-Agent": nil]),
        Trial(name: "204", method: .delete, url: "status/204"),
        Trial(name: "404", method: .get, url: "problem"),
        Trial(name: "500", method: .get, url: "status/500"),
        Trial(name: "304", method: .get, url: "status/304"),
        Trial(name: "text", method: .get, url: "text"),
        Trial(
            name: "text, accepted", method: .get, url: "text", change: { $0.responseSerializer = HTTPResponseSerializer() }),
        Trial(name: "broken JSON", method: .get, url: "broken"),
        Trial(name: "empty JSON", method: .get, url: "empty"),
        Trial(name: "null", method: .get, url: "null"),
        Trial(name: "compressed", method: .get, url: "compressed"),
        Trial(
            name: "nulls removed", method: .get, url: "nulls",
            change: {
                var serializer = JSONResponseSerializer()
                serializer.removesKeysWithNullValues = true
                $0.responseSerializer = serializer
            }),
        Trial(
            name: "too large", method: .get, url: "text",
            change: {
                $0.responseSerializer = HTTPResponseSerializer()
                $0.responseSerializer.limits.maximumBodySize = 3
            }),
        Trial(name: "redirect", method: .get, url: "moved"),
        Trial(name: "redirect of a form", method: .post, url: "kept", parameters: ["a": 1]),
        Trial(name: "reset", method: .get, url: "reset"),
        Trial(name: "silence", method: .get, url: "never", timeout: .idle(0.2)),
        Trial(name: "too slow", method: .get, url: "never", timeout: .total(0.2)),
        Trial(
            name: "a serializer's timeout", method: .get, url: "never",
            change: { $0.requestSerializer.timeoutInterval = 0.2 }),
        Trial(name: "bad URL", method: .get, url: "http://[bad"),
        Trial(name: "no such scheme", method: .get, url: "ftp://example.com/"),
        Trial(name: "no such host", method: .get, url: "http://nothing.invalid/"),
        Trial(name: "a header that cannot be sent", method: .get, url: "echo", headers: ["X-A": "a\nb"]),
        Trial(name: "parameters that cannot be sent", method: .post, url: "echo", parameters: ["a": { @Sendable in 1 }]),
        Trial(name: "a credential that is requested", method: .get, url: "private") {
            $0.operationManager.credential = URLCredential(user: "ada", password: "secret", persistence: .none)
        },
        Trial(name: "a credential that is missing", method: .get, url: "private"),
    ]

    /// Sets up the server's routes, which are the same for each trial.
    private static func serve(_ server: TestServer) {
        server.echo(at: "/v1/echo")
        server.echo(at: "/v1/echo/a b")
        for status in [204, 304, 500] { server.route("/v1/status/\(status)", .status(status)) }
        server.route("/v1/problem", .json(text: #"{"title": "none"}"#, status: 404))
        server.route("/v1/text", .text("plain"))
        server.route("/v1/broken", .json(text: #"{"a": "#))
        server.route("/v1/empty", .json(text: ""))
        server.route("/v1/null", .json(text: "null"))
        server.route("/v1/nulls", .json(text: #"{"a": null, "b": [null, 1]}"#))
        let compressed = Data(base64Encoded: "H4sIAAAAAAACA6tWSlSyUjCsBQCXjqH7CAAAAA==") ?? Data()
        server.route("/v1/compressed", .bytes(compressed, type: "application/json").header("Content-Encoding", "gzip"))
        server.redirect("/v1/moved", to: "/v1/nulls")
        server.redirect("/v1/kept", to: "/v1/echo", status: 308)
        server.route("/v1/reset", .text("x").resetBeforeHead())
        server.route("/v1/never", .text("x").failing(.stallBeforeHead))
        server.route("/v1/private") { request in
            request.headers["Authorization"] != nil
                ? .json(text: "{}") : .status(401).header("WWW-Authenticate", "Basic realm=\"all\"")
        }
    }

    /// Returns the response received by the caller and the request received by the server, without server-specific
    /// parts.
    private static func facts(_ trial: Trial, _ way: Way) async throws -> [String] {
        let server = try TestServer()
        defer { server.stop() }
        serve(server)
        let api = way.manager.make(server.url("/v1"))
        trial.change(api)
        let outcome = await api.outcome(
            way.form, trial.method, trial.url, parameters: trial.parameters.map { RequestParameters($0) },
            headers: trial.headers,
            timeout: trial.timeout)
        let error = outcome.error.map { $0 as NSError }
        // For failures other than unacceptable responses, an async call reports only the error.
        let status = outcome.error == nil || outcome.error is HTTPError ? outcome.status : nil
        var facts = [
            "told: \(outcome.isTold)", "status: \(status ?? 0)",
            "error: \(error.map { "\($0.domain) \($0.code) \($0.localizedDescription)" } ?? "none")",
            "object: \(text(of: outcome.object))",
        ]
        for request in server.requests {
            facts.append("\(request.method) \(request.target) \(request.text)")
            facts += request.headers.fields.map { "\($0.name): \($0.value)" }.sorted()
        }
        return facts.map {
            $0.replacing("127.0.0.1:\(server.port)", with: "server").replacing(#/Boundary\+[0-9A-F]+/#, with: "boundary")
        }
    }

    /// Returns the text of an object in a fixed order, because the request fields echoed by a server can be in any
    /// order.
    private static func text(of object: Any?) -> String {
        guard var object else { return "none" }
        if var members = object as? [String: Any] {
            members["headers"] = nil
            object = members
        }
        if let data = try? JSONSerialization.data(withJSONObject: [object], options: .sortedKeys) {
            return String(decoding: data, as: UTF8.self)
        }
        return "\(object)"
    }

    @Test func `every request has the same result with each manager and in each form`() async throws {
        var differences: [String: [String: [String]]] = [:]
        for trial in Self.trials {
            var results: [[String]: [String]] = [:]
            for way in Way.all { results[try await Self.facts(trial, way), default: []].append("\(way)") }
            guard results.count > 1 else { continue }
            let common = results.keys.dropFirst().reduce(Set(results.keys.first ?? [])) { $0.intersection($1) }
            differences[trial.name] = Dictionary(
                uniqueKeysWithValues: results.map { facts, ways in
                    (ways.joined(separator: "; "), facts.filter { !common.contains($0) })
                })
        }
        #expect(differences.isEmpty)
    }
}
