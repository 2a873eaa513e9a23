import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoySerialization
@testable import ConvoyTransport

/// Tests that calls with plain parts, which skip the intermediate `URL` and `URLRequest`, have the same result.
@Suite struct PlainRequestTests {
    /// A manager that creates its operations from Foundation's requests, as a subclass may.
    private final class OtherManager: HTTPRequestOperationManager, @unchecked Sendable {}

    // MARK: References

    @Test func `a plain reference resolves to the same URL as its parsed form`() throws {
        var random = SplitMix64.printingSeed()
        var plainCount = 0
        let rounds = PropertyBudget.rounds(10_000)
        for _ in 0..<rounds {
            let baseText = Self.bases.randomElement(using: &random) ?? nil
            let base = baseText.flatMap { URL(string: $0) }
            let plainBase = base.flatMap(SimpleURLBase.init)
            let reference = Self.reference(&random)
            let query = ["", "", "a=1", "a=%20&b"].randomElement(using: &random) ?? ""
            guard let plain = SimpleURLReference(reference, under: plainBase), let address = plain.address(appending: query)
            else { continue }
            plainCount += 1
            if plain.isSentAsWritten {
                let path = address.afterAuthority
                #expect(
                    RequestTarget.originForm(of: address, keepingDotSegments: false) == (path.isEmpty ? "/" : String(path)),
                    "\(reference)")
            }
            let what: Comment = "\(reference.debugDescription) under \(baseText ?? "none")"
            // An empty reference means the base with its slash.
            let directory = reference.isEmpty && base?.path.isEmpty == true ? base?.appending(path: "/") : base
            let parsed = URLReference.url(reference, relativeTo: directory)
            let url = try #require(query.isEmpty ? parsed : parsed?.appendingQuery(query), what)
            #expect(address.text == url.absoluteString, what)
            #expect(URL(string: address.text) == url, what)
            #expect(try HTTPAddress.reading(url.absoluteString) == address, what)
            #expect(plain.leadsToBase == Target.isSame(url, plainBase == nil ? nil : base), what)
        }
        #expect(plainCount > rounds / 5 && plainCount < rounds * 4 / 5)
    }

    private static let bases: [String?] = [
        nil, "http://host", "http://host/", "http://host/v1/", "https://host:8443/a/b/", "http://127.0.0.1:8080/",
        "http://[::1]/x/", "http://host/a/../b/", "http://host/./", "http://host/a%20b/", "http://user:pw@host/",
        "HTTP://Host/", "http://host:80/", "https://host/a?b", "http://host/a#b", "http://host/a/b", "http://host//",
        "file:///a/",
        "http://1.2.3/", "http://host./", "http://host/a%2Fb/",
    ]

    private static let pieces = [
        "a", "users", "1", ".", "..", "/", "/", "//", "?", "&", "=", ":", "@", "%20", "%", "%2", "%zz", "%2e", "#", " ", "é",
        "[",
        "\\", "|", "\"", "+", "~", "!", "$", "'", "(", ")", "*", ",", ";", "-", "_", "\n", "\u{0}", "^", "`", "{", "a.b",
        ".well-known",
    ]

    private static let beginnings = [
        "", "", "", "", "/", "/", "//", "//host/", "http://", "http://host", "http://host/", "https://host:8443/",
        "http://other/",
        "http://host:80/", "http://host:08/", "http://host:99999/", "http://127.0.0.1:8080/", "http://127.0.0.1:8080",
        "http://127.1/",
        "http://0x7f.1/", "http://[::1]/", "http://[::1]:80/", "http://host./", "http://Host/", "HTTP://host/",
        "https://host/",
        "http://user@host/", "http://a..b/", "http://-a/", "http://1.2.3.4/", "http://1.2.3.400/", "ftp://host/", "mailto:",
        "http:/a",
        "http:a", "httpbin/", "http", "x:", "1:", "http://a_b/", "http://a+b/", "http://host?", "http://host#",
        "https://host:8443",
    ]

    private static func reference(_ random: inout SplitMix64) -> String {
        var text = beginnings.randomElement(using: &random) ?? ""
        // Half of the references consist of plain parts, which would otherwise be rare.
        let known =
            Bool.random(using: &random) ? ["a", "users", "1", "/", "?", "&", "=", "%20", "a.b", "-", "+", "@"] : pieces
        for _ in 0..<Int.random(in: 0...6, using: &random) { text += known.randomElement(using: &random) ?? "" }
        return text
    }

    // MARK: Calls

    @Test func `a prepared call is equal to the serializer's request`() throws {
        var random = SplitMix64.printingSeed()
        var (preparedCount, failures) = (0, 0)
        let managers = Self.managers()
        let rounds = PropertyBudget.rounds(3_000)
        for _ in 0..<rounds {
            guard let manager = managers.randomElement(using: &random) else { return }
            let (call, body) = Self.call(&random)
            let what: Comment = "\(call) under \(manager)"
            let made = Result { try manager.request(of: call, manager.parameters(of: call), body: body) }
            let operation = Result { try manager.makeOperation(call, body: body) }
            switch (made, operation) {
            case (.failure(let one), .failure(let other)):
                failures += 1
                #expect((one as NSError).domain == (other as NSError).domain, what)
                #expect((one as NSError).code == (other as NSError).code, what)
            case (.success(let request), .success(let operation)):
                let given = operation.core.withLock { $0.request }
                if let header = given.header {
                    preparedCount += 1
                    try expectSame(given, header, request, what)
                    #expect(operation.schedulingHost == Target.place(of: request.url), what)
                }
                let own = operation.request
                #expect(own == request && own.url?.absoluteString == request.url?.absoluteString, what)
                #expect(own.httpMethod == request.httpMethod && own.httpBody == request.httpBody, what)
                #expect(own.allHTTPHeaderFields == request.allHTTPHeaderFields, what)
                #expect(own.timeoutInterval == request.timeoutInterval && own.cachePolicy == request.cachePolicy, what)
            default: Issue.record("\(what): \(made) and \(operation)")
            }
        }
        #expect(preparedCount > rounds / 6 && failures > rounds / 120, "\(preparedCount) prepared, \(failures) failures")
    }

    private func expectSame(
        _ prepared: TransferRequest, _ header: RequestHeader, _ request: URLRequest, _ what: Comment
    ) throws {
        let address = try RequestRules.address(of: TransferRequest(request), hasCache: false)
        #expect(prepared.address == address, what)
        let expected = try RequestHeader(
            .init(fields: request.allHTTPHeaderFields ?? [:], hasBody: request.httpBody?.isEmpty == false), url: nil)
        #expect(header.source == expected.source, what)
        #expect(prepared.body == request.httpBody, what)
    }

    private static func managers(host: String = "http://127.0.0.1:8080") -> [HTTPRequestOperationManager] {
        var authorized = HTTPRequestSerializer()
        authorized.setAuthorizationHeader(bearerToken: "token")
        authorized.setValue("one", forHTTPHeaderField: "x-first")
        authorized.timeoutInterval = 7
        var typed = JSONRequestSerializer(writingOptions: .prettyPrinted)
        typed.http.setValue("application/vnd.api+json", forHTTPHeaderField: "content-type")
        typed.http.queryStringStyle = .dots
        var compressing = HTTPRequestSerializer()
        compressing.compressesBody = true
        compressing.httpMethodsEncodingParametersInURI = [.get, "put"]
        // A GET of this serializer without parameters has an empty form.
        var forms = HTTPRequestSerializer()
        forms.httpMethodsEncodingParametersInURI = [.head]
        var own = HTTPRequestSerializer()
        own.queryStringSerialization = { _, parameters in "own=\(parameters.description)" }
        var offline = HTTPRequestSerializer()
        offline.cachePolicy = .returnCacheDataDontLoad
        var latin = HTTPRequestSerializer()
        latin.stringEncoding = .isoLatin1
        let serializers: [any HTTPRequestSerialization] = [
            HTTPRequestSerializer(), HTTPRequestSerializer(), JSONRequestSerializer(), authorized, typed, compressing, own,
            offline,
            latin, forms, PropertyListRequestSerializer(),
        ]
        var managers: [HTTPRequestOperationManager] = []
        for base in [nil, "\(host)/", "\(host)/v1/"] {
            for serializer in serializers {
                let manager = HTTPRequestOperationManager(baseURL: base.flatMap { URL(string: $0) })
                manager.requestSerializer = serializer
                if managers.count % 3 == 0 {
                    manager.authorizationOrigins = Set([URL(string: "http://other/")].compactMap(\.self))
                }
                if managers.count % 4 == 0 {
                    manager.connectionConfiguration.sensitiveHeaders = ["X-First", "content-type"]
                }
                managers.append(manager)
            }
        }
        return managers
    }

    private static func call(
        _ random: inout SplitMix64, host: String = "http://127.0.0.1:8080"
    ) -> (RequestArguments, RequestBody?) {
        let methods: [HTTPMethod] = [
            .get, .get, .get, .head, .post, .post, .put, .patch, .delete, .options, "get", "Post", "bad method",
        ]
        let urls = [
            "users/1", "users/1", "/users?page=2", "users?", "users?a&", "\(host)/x", "\(host)/x?y=1", host,
            "http://other/a", "a b",
            "//other/b", "../a", "a#b", "",
        ]
        var parameters: RequestParameters?
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1: break
        case 2: parameters = .init(.dictionary(["tree": ["of": 1, "values": [1, 2]]]))
        case 3: parameters = [:]
        default:
            var values: [String: Any?] = [:]
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                values[["a", "b", "key", "a b", "é", "x[y]"].randomElement(using: &random) ?? ""] = value(&random)
            }
            parameters = .init(values)
        }
        var headers: [String: String?] = [:]
        if Bool.random(using: &random) {
            let names = [
                "X-One", "x-one", "Accept", "Authorization", "Content-Type", "content-type", "User-Agent", "accept-language",
                "If-None-Match",
                "X-First", "Range", "Content-Length", "Cookie", "bad name", "Host", "Accept-Encoding",
            ]
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let value: String? =
                    ["", "v", "v", "text/plain", "text/plain", "ä", "a\nb", nil, nil, "\"etag\"", "a b", "*/*"]
                    .randomElement(using: &random) ?? nil
                headers.updateValue(value, forKey: names.randomElement(using: &random) ?? "X")
            }
        }
        let bodies: [RequestBody?] = [
            nil, nil, nil, nil, .data(Data("{}".utf8), contentType: "application/json"),
            .data(Data(), contentType: "text/plain"),
        ]
        let method = methods.randomElement(using: &random) ?? .get
        let url = urls.randomElement(using: &random) ?? ""
        return (
            RequestArguments(method, url, parameters, nil, headers, nil),
            bodies.randomElement(using: &random) ?? nil
        )
    }

    private static func value(_ random: inout SplitMix64) -> Any? {
        let values: [Any?] = [
            "text", "a&b=c d", "é☃", "", 1, -7, Int.max, true, false, 1.5, 3.0, Double.nan, nil, UInt8(9), UInt64.max,
            Date(timeIntervalSince1970: 0),
            ["x": 1, "y": nil] as [String: Any?], [1, 2, "3"], NSNull(), NSNumber(value: true), NSNumber(value: 2),
            Optional("inside") as Any,
            Substring("sub"), Data([1, 2]), URL(string: "http://a/b") as Any, Set([1]), ParameterValue.null,
            JSON.number(JSONNumber(12)), Float(0.5),
            Character("c") as Any,
        ]
        let isCommon = Int.random(in: 0..<4, using: &random) > 0
        return values.prefix(isCommon ? 11 : values.count).randomElement(using: &random) ?? nil
    }

    // MARK: On the wire

    @Test func `a prepared call is sent like the serializer's request`() async throws {
        let server = try TestServer()
        var random = SplitMix64(seed: 32)
        let host = "http://127.0.0.1:\(server.port)"
        var sentCount = 0
        for manager in Self.managers(host: host) {
            let other = OtherManager(copying: manager)
            for one in [manager, other] {
                (one.completionQueue, one.responseSerializer) = (testQueue, HTTPResponseSerializer())
            }
            for _ in 0..<12 {
                let (call, body) = Self.call(&random, host: host)
                if call.url.contains("other") { continue }
                let before = server.requests.count
                for one in [manager, other] {
                    guard let operation = try? one.makeOperation(call, body: body) else { continue }
                    // No response confirms that the server has read the body of a HEAD.
                    if call.method == .head, operation.request.httpBody != nil { continue }
                    try? await one.enqueue(operation).finished()
                }
                let sent = server.requests.dropFirst(before).map { request in
                    request.headers.fields.map { "\($0.name): \($0.value)" }.sorted()
                        + [request.method, request.target, request.body.base64EncodedString()]
                }
                #expect(sent.count != 1 && sent.first == sent.last, "\(call)")
                sentCount += sent.count
            }
        }
        #expect(sentCount > 200)
    }

    @Test func `a handle that is reused for several servers requests the given target from each`() async throws {
        let servers = [try TestServer(), try TestServer()]
        let manager = HTTPRequestOperationManager(completionQueue: testQueue)
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        manager.responseSerializer = serializer
        let targets = [
            "": "/", "/": "/", "/a": "/a", "/a/b?c=d/../e": "/a/b?c=d/../e", "/a%2Fb?q=%20": "/a%2Fb?q=%20",
            // These references have parts that must be resolved or encoded.
            "/a/../b": "/b", "/a b": "/a%20b", "/x#fragment": "/x",
        ]
        var random = SplitMix64.printingSeed()
        for _ in 0..<100 {
            let server = try #require(servers.randomElement(using: &random))
            let host = try #require(["127.0.0.1", "localhost"].randomElement(using: &random))
            let (path, target) = try #require(targets.sorted { $0.key < $1.key }.randomElement(using: &random))
            let before = server.requests.count
            try await manager.enqueue(try manager.makeOperation(.get, "http://\(host):\(server.port)\(path)")).finished()
            let request = try #require(server.requests.dropFirst(before).first)
            #expect(request.target == target && request.headers["Host"] == "\(host):\(server.port)", "\(path)")
        }
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `over HTTP/2, each request of a connection sends its own path`() async throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let manager = HTTPRequestOperationManager(baseURL: nginx.secureURL, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.connectionConfiguration.certificateAuthorities = nginx.certificateAuthority
        let names = (0..<8).map { "file\($0)" }
        for name in names { _ = try nginx.add(Data(name.utf8), as: name) }
        let operations = try (0..<64).map { try manager.makeOperation(.get, "\(names[$0 % 8])?number=\($0)") }
        for operation in operations { manager.enqueue(operation) }
        for (number, operation) in operations.enumerated() {
            try await operation.finished()
            #expect(operation.responseString == names[number % 8])
        }
    }
}
