import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Requests and responses of both managers in each form.
@Suite struct ResponseBehaviourTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.echo(at: "/v1/echo")
        server.route("/v1/json", .json(text: #"{"a": [1, "b", null]}"#))
    }

    private func api(_ way: Way) -> any HTTPManager { way.manager.make(server.url("/v1")) }

    @Test(arguments: Way.all, ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
    func `each verb sends its method and parameters`(way: Way, verb: String) async throws {
        let outcome = await api(way).outcome(
            way.form, HTTPMethod(verb), "echo", parameters: ["a": "b c", "n": [1, 2], "none": nil])
        #expect(outcome.error == nil && outcome.isTold && outcome.status == 200)
        let sent = try #require(server.requests.last)
        #expect(sent.method == verb && sent.path == "/v1/echo" && server.requests.count == 1)
        #expect((sent.query ?? "") + sent.text == "a=b%20c&n%5B%5D=1&n%5B%5D=2")
        let standard = HTTPRequestSerializer()
        #expect(sent.headers["User-Agent"] == standard.value(forHTTPHeaderField: "User-Agent"))
        #expect(sent.headers["Accept-Language"] == standard.value(forHTTPHeaderField: "Accept-Language"))
        let isForm = ["POST", "PUT", "PATCH"].contains(verb)
        #expect(sent.headers["Content-Type"] == (isForm ? "application/x-www-form-urlencoded" : nil))
        #expect((outcome.object == nil) == (verb == "HEAD"))
    }

    @Test(arguments: Way.all, ["POST", "PUT", "PATCH", "DELETE"])
    func `a body is sent as JSON, by the manager's encoder`(way: Way, verb: String) async throws {
        struct Item: Encodable { var itemName = "x" }
        let api = api(way)
        api.encoder.keyEncodingStrategy = .convertToSnakeCase
        let outcome = await api.outcome(way.form, HTTPMethod(verb), "echo", parameters: ["draft": true], body: Item())
        #expect(outcome.error == nil && outcome.isTold)
        let sent = try #require(server.requests.last)
        #expect(sent.method == verb && sent.text == #"{"item_name":"x"}"# && sent.query == "draft=1")
        #expect(sent.headers["Content-Type"] == "application/json")
    }

    @Test(arguments: Way.all) func `a request that cannot be created fails once, and nothing is sent`(way: Way) async throws
    {
        final class Thing: Sendable {}
        let api = api(way)
        let relative = way.manager.make()
        var outcomes: [Outcome] = []
        for url in ["http://[bad", "ftp://example.com/x", "http://ada:secret@127.0.0.1/"] {
            outcomes.append(await api.outcome(way.form, .get, url))
        }
        outcomes.append(await relative.outcome(way.form, .get, "relative"))
        let count = outcomes.count
        #expect(outcomes.compactMap(\.code).count == count)
        #expect(outcomes[0].code == .badURL && outcomes[1].code == .unsupportedURL && outcomes[3].code == .badURL)
        outcomes.append(await api.outcome(way.form, .post, "echo", parameters: ["outer": ["inner": Thing()]]))
        outcomes.append(await api.outcome(way.form, .get, "echo", headers: ["X-A": "a\r\nb"]))
        api.requestSerializer = JSONRequestSerializer()
        outcomes.append(await api.outcome(way.form, .put, "echo", parameters: ["x": Double.nan]))
        for outcome in outcomes.dropFirst(count) {
            #expect((outcome.error as NSError?)?.domain == URLRequestSerializationErrorDomain)
        }
        #expect(outcomes.allSatisfy(\.isTold) && server.requests.isEmpty)
    }

    @Test(arguments: Way.all) func `a JSON error response has both an object and an error`(way: Way) async throws {
        server.route("/v1/missing", .json(text: #"{"title": "no such user"}"#, status: 404))
        let outcome = await api(way).outcome(way.form, .get, "missing")
        let error = try #require(outcome.error as? HTTPError)
        #expect(error.statusCode == 404 && error.code == NSURLErrorBadServerResponse && outcome.isTold)
        #expect(error.domain == URLResponseSerializationErrorDomain)
        #expect((error.responseObject as? [String: String]) == ["title": "no such user"])
        if let operation = outcome.operation {
            #expect((operation.responseObject as? [String: String]) == ["title": "no such user"])
            #expect(operation.statusCode == 404 && operation.error as NSError? == error)
        }
    }

    @Test(arguments: Way.all) func `an empty body is neither an error nor an object`(way: Way) async throws {
        server.route("/v1/204", .status(204))
        server.route("/v1/205", .status(205))
        server.route("/v1/empty", .json(text: ""))
        server.route("/v1/space", .json(text: " "))
        for path in ["204", "205", "empty", "space"] {
            let outcome = await api(way).outcome(way.form, .delete, path)
            #expect(outcome.error == nil && outcome.isTold && outcome.object == nil, "\(path)")
        }
    }

    @Test(arguments: Way.all) func `a response that the serializer rejects fails the task`(way: Way) async throws {
        server.route("/v1/text", .text("plain"))
        server.route("/v1/broken", .json(text: #"{"a": "#))
        let api = api(way)
        let text = await api.outcome(way.form, .get, "text")
        #expect((text.error as NSError?)?.code == NSURLErrorCannotDecodeContentData && text.isTold)
        let broken = await api.outcome(way.form, .get, "broken")
        #expect(broken.error != nil && broken.isTold && broken.object == nil)
        api.responseSerializer = HTTPResponseSerializer()
        let data = await api.outcome(way.form, .get, "text")
        #expect(data.error == nil && data.object as? Data == Data("plain".utf8))
        api.responseSerializer = JSONResponseSerializer()
        api.responseSerializer.acceptableContentTypes = nil
        api.responseSerializer.acceptableStatusCodes = [418]
        #expect(await api.outcome(way.form, .get, "json").status == 200)
        #expect(await api.outcome(way.form, .get, "json").error is HTTPError)
    }

    @Test(arguments: Way.all) func `a call's header fields take precedence, and nil removes one`(way: Way) async throws {
        let api = api(way)
        api.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        api.requestSerializer.setValue("two", forHTTPHeaderField: "X-Two")
        api.requestSerializer.setAuthorizationHeader(username: "ada", password: "secret")
        let outcome = await api.outcome(way.form, .get, "echo", headers: ["x-one": "mine", "X-Two": nil])
        #expect(outcome.error == nil && outcome.isTold)
        let sent = try #require(server.requests.last).headers
        #expect(sent.values(for: "X-One") == ["mine"] && sent["X-Two"] == nil)
        #expect(sent["Authorization"] == "Basic YWRhOnNlY3JldA==")
        api.requestSerializer.clearAuthorizationHeader()
        _ = await api.outcome(way.form, .get, "echo")
        #expect(server.requests.last?.headers["X-Two"] == "two" && server.requests.last?.headers["Authorization"] == nil)
    }

    @Test(arguments: Way.all) func `each timeout ends a request once`(way: Way) async throws {
        server.route("/v1/drip", .drip(Data(repeating: 1, count: 400), chunk: 1, interval: 0.05))
        server.route("/v1/never", .text("x").stalls(afterBytes: 0))
        let api = api(way)
        for (path, timeout) in [("drip", 0.15), ("never", .idle(0.1)), ("never", 0.15)] as [(String, RequestTimeout)] {
            let outcome = await api.outcome(way.form, .get, path, timeout: timeout)
            #expect(outcome.code == .timedOut && outcome.isTold)
        }
        #expect(await api.outcome(way.form, .get, "json", timeout: RequestTimeout(idle: 20, total: 20)).error == nil)
        api.requestSerializer.timeoutInterval = 0.1
        let outcome = await api.outcome(way.form, .get, "never", timeout: .total(20))
        #expect(outcome.code == .timedOut && outcome.isTold)
        #expect(outcome.error?.localizedDescription == "No data was transferred for 0.1 seconds.")
    }

    @Test(arguments: Way.all) func `a lost or refused connection fails the task`(way: Way) async throws {
        server.route("/v1/reset", .text("x").resetBeforeHead())
        server.route("/v1/short", .pattern(count: 100_000).resets(afterBytes: 50_000))
        let api = api(way)
        for path in ["reset", "short"] {
            let outcome = await api.outcome(way.form, .post, path)
            #expect(outcome.code == .networkConnectionLost && outcome.isTold, "\(path)")
        }
        server.stop()
        let refused = await api.outcome(way.form, .get, "echo")
        #expect(refused.code == .cannotConnectToHost && refused.isTold)
    }

    @Test(arguments: Way.all) func `redirects are followed`(way: Way) async throws {
        server.redirect("/v1/moved", to: "/v1/json")
        server.redirect("/v1/kept", to: "/v1/echo", status: 307)
        server.redirect("/v1/loop", to: "/v1/loop")
        let api = api(way)
        let moved = await api.outcome(way.form, .get, "moved")
        #expect(moved.error == nil && moved.isTold && moved.operation?.response?.url == server.url("/v1/json"))
        let kept = await api.outcome(way.form, .post, "kept", parameters: ["a": 1])
        #expect(kept.error == nil && server.requests.last?.method == "POST" && server.requests.last?.text == "a=1")
        let loop = await api.outcome(way.form, .get, "loop")
        #expect(loop.code == .httpTooManyRedirects && loop.isTold)
    }

    @Test(arguments: Way.all) func `a credential is sent only to the base URL's server`(way: Way) async throws {
        let other = try TestServer()
        let isLetIn: @Sendable (RecordedRequest) -> TestServer.Response = { request in
            request.headers["Authorization"] == "Basic YWRhOnNlY3JldA=="
                ? .json(text: "{}") : .status(401).header("WWW-Authenticate", "Basic realm=\"all\"")
        }
        for server in [server, other] { server.route("/v1/private", handler: isLetIn) }
        let api = api(way)
        api.operationManager.credential = URLCredential(user: "ada", password: "secret", persistence: .forSession)
        let known = await api.outcome(way.form, .get, "private")
        #expect(known.error == nil && known.isTold)
        #expect(server.requests.map { $0.headers["Authorization"] == nil } == [true, false])
        let foreign = await api.outcome(way.form, .get, other.url("/v1/private").absoluteString)
        #expect(foreign.status == 401 && foreign.isTold)
        #expect(other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test(arguments: Way.all) func `cookies are sent back to their server`(way: Way) async throws {
        server.route("/v1/set", .json(text: "{}").header("Set-Cookie", "a=1; Path=/"))
        let api = api(way)
        _ = await api.outcome(way.form, .get, "set")
        _ = await api.outcome(way.form, .post, "echo")
        #expect(server.requests.map { $0.headers["Cookie"] } == [nil, "a=1"])
        api.requestSerializer.httpShouldHandleCookies = false
        _ = await api.outcome(way.form, .get, "echo")
        #expect(server.requests.last?.headers["Cookie"] == nil)
    }

    @Test(arguments: Way.all) func `retries are reported once, at the end`(way: Way) async throws {
        server.route("/v1/later", inTurn: [.status(503), .status(503), .json(text: "{}")])
        server.route("/v1/always", .status(503))
        let api = api(way)
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.01
        policy.budget = RetryBudget(share: 0, reserve: 100)
        api.operationManager.retryPolicy = policy
        let later = await api.outcome(way.form, .get, "later")
        #expect(later.error == nil && later.isTold && later.operation?.retryCount == 2)
        let always = await api.outcome(way.form, .get, "always")
        #expect(always.status == 503 && always.isTold && server.requests("/v1/always").count == 3)
        let post = await api.outcome(way.form, .post, "always")
        #expect(post.status == 503 && post.isTold && server.requests("/v1/always").count == 4)
    }

    @Test(arguments: Way.all) func `concurrent requests all arrive, each once`(way: Way) async throws {
        let api = api(way)
        let outcomes = await withTaskGroup(of: Outcome.self) { group in
            for number in 0..<300 {
                group.addTask { await api.outcome(way.form, .get, "echo", parameters: ["n": number]) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count == 300 && outcomes.allSatisfy { $0.error == nil && $0.isTold })
        #expect(Set(server.requests.compactMap(\.query)).count == 300 && server.requests.count == 300)
    }
}
