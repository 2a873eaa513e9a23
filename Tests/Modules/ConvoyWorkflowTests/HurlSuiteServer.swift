import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation

/// A server with what the tests of Hurl need: bodies of many kinds, cookies, redirects, logins, and an echo.
enum HurlSuiteServer {
    static func make() throws -> TestServer {
        let server = try TestServer()
        server.route("/hello", .text("Hello World!"))
        server.route("/multilines", .text("Name: Bob\nAge: 42\n"))
        server.route("/empty", .bytes(Data()))
        server.route("/bytes", .bytes(Data([1, 2, 3, 0xFF])))
        server.route(
            "/latin1",
            .bytes(Data("caf\u{E9}".unicodeScalars.map { UInt8($0.value) }), type: "text/plain; charset=iso-8859-1"))
        server.route("/gb2312", .bytes(Data([0xC4, 0xE3, 0xBA, 0xC3]), type: "text/plain; charset=gb2312"))
        server.route("/utf8", .text("caf\u{E9} 你好"))
        server.route("/not-utf8", .bytes(Data([0x61, 0xFF, 0x62]), type: "text/plain; charset=utf-8"))
        let gzip = Data(base64Encoded: "H4sIAAAAAAAAA/NIzcnJBwCCidH3BQAAAA==") ?? Data()
        server.route("/gzip", Response.bytes(gzip, type: "text/plain").header("Content-Encoding", "gzip"))
        server.route("/large", .pattern(count: 8 << 20))
        server.route("/slow", Response.text("late").delayed(0.15))
        server.route("/json", .json(text: json))
        server.route(
            "/floats", .json(text: #"{"a": 3.333333333333333, "b": 100000000000000000000, "c": 1e2, "d": -0.5, "e": 1.0}"#))
        server.route(
            "/page",
            .bytes(
                Data(
                    "<!doctype html><html><head><title>Sh&oacute;p</title></head><body><p>one<p>two<p class=x>three</html>"
                        .utf8),
                type: "text/html; charset=utf-8"))
        server.route(
            "/xml",
            .bytes(
                Data(
                    #"<?xml version="1.0"?><f:feed xmlns:f="urn:f" xmlns="urn:d"><entry id="1">a</entry><f:entry>b</f:entry></f:feed>"#
                        .utf8),
                type: "application/xml"))
        server.route(
            "/headers",
            Response.text("x").header("X-One", "1").header("X-Empty", "").header("X-Many", "a").header("X-Many", "b")
                .header("Date", "Sun, 06 Nov 1994 08:49:37 GMT"))
        for status in [200, 201, 204, 301, 404, 410, 500] { server.route("/status/\(status)", .status(status)) }
        server.route("/hop/*") { request in
            let count = Int(request.path.dropFirst(5)) ?? 0
            return count == 0 ? .text("done") : .redirect(to: "/hop/\(count - 1)")
        }
        server.route(
            "/cookies/set",
            Response.text("set").header("Set-Cookie", "a=1; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Lax")
                .header("Set-Cookie", "b=two; Path=/"))
        server.route("/cookies/clear", Response.text("x").header("Set-Cookie", "b=; Path=/; Max-Age=0"))
        for path in ["/echo", "/echo/*"] { server.route(path) { .json(text: echo($0).description) } }
        server.route("/basic") { $0.headers["Authorization"] == "Basic Ym9iOnNlY3JldA==" ? .text("in") : .status(401) }
        for path in ["/digest", "/a/../digest"] {
            server.route(path) { request in
                let realm = "realm=\"r\", nonce=\"n1\", qop=\"auth\", algorithm=MD5"
                return isDigest(request.headers["Authorization"], of: request)
                    ? .text("in") : .status(401, headers: ["WWW-Authenticate": "Digest \(realm)"])
            }
        }
        server.route("/trusted") { request in
            let port = (request.headers["Host"] ?? "").drop { $0 != ":" }
            return .redirect(to: "http://localhost\(port)/basic")
        }
        server.route("POST", "/signed") { request in
            let words = (request.headers["Authorization"] ?? "").split(separator: "/" as Character).map(String.init)
            guard words.count == 5, words[0] == "AWS4-HMAC-SHA256 Credential=someAccessKeyId",
                request.headers["X-Amz-Date"]?.hasPrefix(words[1]) == true
            else { return .status(403) }
            return .text("signed for \(words[2])/\(words[3])")
        }
        let tries = Counter()
        server.route("/retry") { _ in tries.next() < 4 ? .text("not yet", status: 500) : .text("ready") }
        server.route("/graphql") { request in
            request.text.contains("human") ? .json(text: #"{"data": {"human": {"name": "Luke"}}}"#) : .status(400)
        }
        return server
    }

    private typealias Response = TestServer.Response

    private static let json = """
        {"count": 5, "success": true, "message": "0 errors", "none": null, "ratio": 0.5, "empty": [], "date": "2026-02-03T04:05:06Z",
         "id": "8c9b4fcb-5b0a-4e4b-9b0a-5f2e3b2b6f2c", "ip": "192.0.2.1", "user": {"name": "Bob", "a b": 1}, "dot.ted": 2,
         "errors": [{"id": "error1", "code": 1}, {"id": "error2", "code": 2}], "books": [{"price": 8.95, "tags": ["x"]}, {"price": 22.99, "tags": []}],
         "url": "https://a.test/?q=a%20b", "html": "&lt;b&gt;", "base64": "SGVsbG8=", "list": "a,b,c"}
        """

    /// Returns whether a field contains the digest of Bob's password (RFC 7616).
    private static func isDigest(_ field: String?, of request: RecordedRequest) -> Bool {
        guard let field, field.hasPrefix("Digest ") else { return false }
        var values: [String: String] = [:]
        for part in field.dropFirst(7).split(separator: "," as Character) {
            let pair = part.split(separator: "=" as Character, maxSplits: 1).map { $0.trimmingCharacters(in: [" ", "\""]) }
            if pair.count == 2 { values[pair[0]] = pair[1] }
        }
        func md5(_ text: String) -> String {
            let digest = MessageDigest(.md5)
            digest.update(Data(text.utf8))
            return digest.value()?.hexadecimalString ?? ""
        }
        let login = md5("bob:r:secret"), target = md5("\(request.method):\(request.target)")
        let middle = ["nonce", "nc", "cnonce", "qop"].map { values[$0] ?? "" }.joined(separator: ":")
        return values["response"] == md5("\(login):\(middle):\(target)")
    }

    private static func echo(_ request: RecordedRequest) -> JSON {
        var headers = JSONObject()
        for name in ["Cookie", "User-Agent", "Content-Type", "Authorization", "X-A", "X-B", "Fruit", "Expect", "Accept"] {
            if let value = request.headers[name] { headers[name] = .string(value) }
        }
        return [
            "method": .string(request.method), "target": .string(request.target), "text": .string(request.text),
            "base64": .string(request.body.base64EncodedString()), "headers": .object(headers),
            "version": .string(request.version), "length": .number(JSONNumber(request.bodyLength)),
        ]
    }
}
