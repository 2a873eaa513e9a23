import ConvoySecurity
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

/// Compares signatures with the examples in Amazon's documentation ("Signature Calculations for the Authorization
/// Header") and with botocore.
@Suite struct SignatureTests {
    private static let signer = SignatureV4(
        credentials: .documented, region: "us-east-1", date: Date(timeIntervalSince1970: 1_369_353_600))
    private static let host = (name: "Host", value: "examplebucket.s3.amazonaws.com")

    private func signature(
        _ method: String, _ path: String, _ query: String = "", _ headers: [(name: String, value: String)] = [],
        _ payload: SignatureV4.Payload = .empty
    ) throws -> String {
        let fields = [Self.host, ("x-amz-date", "20130524T000000Z"), ("x-amz-content-sha256", payload.text)] + headers
        let value = try Self.signer.authorization(
            method: method, path: path, query: query, headers: fields, payload: payload)
        return try String(#require(value.split(separator: "Signature=").last))
    }

    @Test func `a GET with a range has the documented signature`() throws {
        let value = try signature("GET", "/test.txt", "", [("Range", "bytes=0-9")])
        #expect(value == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    }

    @Test func `a PUT has the documented signature`() throws {
        let digest = try #require(MessageDigest.sha256(Data("Welcome to Amazon S3.".utf8))).hexadecimalString
        let value = try signature(
            "PUT", "/" + SignatureV4.encoded("test$file.text"), "",
            [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")], .digest(digest))
        #expect(value == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
    }

    @Test func `a query item without a value has the documented signature`() throws {
        let value = try signature("GET", "/", "lifecycle")
        #expect(value == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
    }

    @Test func `a listing has the documented signature regardless of the order of its query`() throws {
        for query in ["max-keys=2&prefix=J", "prefix=J&max-keys=2"] {
            let value = try signature("GET", "/", query)
            #expect(value == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        }
    }

    @Test func `a presigned URL has the documented signature`() throws {
        let query = try Self.signer.presignedQuery(
            method: "GET", path: "/test.txt", query: "", headers: [Self.host], seconds: 86400)
        #expect(
            query == "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3"
                + "%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
                + "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
    }

    @Test func `the canonical request normalizes the query and the headers`() {
        let request = SignatureV4.canonicalRequest(
            method: "GET", path: "", query: "b=2&a=%7e&a=1&b&c=x+y&=z",
            headers: [("X-B", "  two   spaces\t here "), ("Host", "h"), ("x-a", "1"), ("X-A", "2")], payload: .unsigned)
        #expect(
            request == """
                GET
                /
                =z&a=1&a=~&b=&b=2&c=x%2By
                host:h
                x-a:1,2
                x-b:two spaces here

                host;x-a;x-b
                UNSIGNED-PAYLOAD
                """)
    }

    @Test func `all bytes of a key except unreserved characters and slashes are encoded`() {
        let encoded = SignatureV4.encoded("a b+c/ü~%2F😀&=?#", keepsSlashes: true)
        #expect(encoded == "a%20b%2Bc/%C3%BC~%252F%F0%9F%98%80%26%3D%3F%23")
        #expect(SignatureV4.encoded("a/b") == "a%2Fb")
    }

    @Test func `credentials are never printed`() throws {
        let credentials = ObjectStorageCredentials(
            accessKeyID: "AKIAVISIBLE", secretAccessKey: "hidden-key", sessionToken: "hidden-token")
        let provider = ObjectStorageCredentialProvider { credentials }
        let configuration = ObjectStorage.Configuration(
            endpoint: try #require(URL(string: "http://localhost")), region: "us-east-1", bucket: "bucket")
        let storage = try ObjectStorage(configuration, credentials: provider)
        for value in [credentials, provider, storage] as [Any] {
            var text = "\(value) \(String(reflecting: value)) "
            dump(value, to: &text)
            #expect(!text.contains("VISIBLE") && !text.contains("hidden"), "\(text)")
        }
    }

    @Test func `credentials can be read from environment variables`() throws {
        let names = ["KEY", "SECRET", "TOKEN"].map { "CONVOY_TEST_\($0)_\(getpid())" }
        defer { for name in names { unsetenv(name) } }
        let provider = ObjectStorageCredentialProvider.environment(
            accessKeyID: names[0], secretAccessKey: names[1], sessionToken: names[2])
        #expect(throws: ObjectStorageError.self) { try provider.credentials() }
        setenv(names[0], "key", 1)
        setenv(names[1], "secret", 1)
        setenv(names[2], "", 1)
        #expect(try provider.credentials() == ObjectStorageCredentials(accessKeyID: "key", secretAccessKey: "secret"))
        setenv(names[2], "token", 1)
        #expect(try provider.credentials().sessionToken == "token")
        setenv(names[2], "to\r\nken: x", 1)
        #expect(throws: ObjectStorageError.self) { try provider.credentials() }
    }

    // MARK: Comparison with botocore

    private struct Case: Codable {
        var method: String, url: String, headers: [String: String], payload: String, date: String
        var token: String?, signature: String?
    }

    @Test(.needsMoto) func `signatures match those of botocore`() throws {
        var random = SplitMix64.printingSeed()
        let pieces = ["a", "B", "/", " ", "+", "%", "ü", "😀", "~", "*", "'", "(", "=", "&", "?", "#", "-", ".", "1", ","]
        func text(_ length: Int) -> String {
            (0..<Int.random(in: 1...length, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
        }
        let cases = (0..<200).map { _ in
            let items = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                "\(SignatureV4.encoded(text(5)))=\(SignatureV4.encoded(text(5)))"
            }
            let query = items.isEmpty ? "" : "?" + items.joined(separator: "&")
            var headers = [
                "x-amz-meta-a": ["one", "two  words", "  three   more words "].randomElement(using: &random) ?? ""
            ]
            if Bool.random(using: &random) { headers["Content-Type"] = "text/plain; charset=utf-8" }
            return Case(
                method: ["GET", "PUT", "POST", "DELETE", "HEAD"].randomElement(using: &random) ?? "GET",
                url: "http://host.example:9000/bucket/\(SignatureV4.encoded(text(20), keepsSlashes: true))\(query)",
                headers: headers,
                payload: Bool.random(using: &random) ? "UNSIGNED-PAYLOAD" : String(repeating: "ab", count: 32),
                date: "20260101T120000Z", token: Bool.random(using: &random) ? "to/ken+==" : nil)
        }
        let directory = try TemporaryDirectory()
        let file = try directory.write(JSONEncoder().encode(cases), to: "cases.json")
        let found = try ProcessRunner.run(try #require(Moto.python), ["-c", Self.script, file.path])
        let expected = try JSONDecoder().decode([String].self, from: Data(found.text.utf8))
        #expect(expected.count == cases.count)
        for (item, expected) in zip(cases, expected) {
            let credentials = ObjectStorageCredentials(
                accessKeyID: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                sessionToken: item.token)
            let signer = SignatureV4(
                credentials: credentials, region: "eu-west-1", date: Date(timeIntervalSince1970: 1_767_268_800))
            let rest = item.url.dropFirst("http://host.example:9000".count)
            let parts = rest.split(separator: "?", maxSplits: 1)
            var headers = item.headers.map { (name: $0.key, value: $0.value) }
            headers += [
                ("host", "host.example:9000"), ("x-amz-date", signer.timestamp), ("x-amz-content-sha256", item.payload),
            ]
            if let token = item.token { headers.append(("x-amz-security-token", token)) }
            let value = try signer.authorization(
                method: item.method, path: String(parts[0]), query: parts.count > 1 ? String(parts[1]) : "",
                headers: headers, payload: item.payload == "UNSIGNED-PAYLOAD" ? .unsigned : .digest(item.payload))
            try #require(value == expected, "\(item)")
        }
    }

    private static let script = """
        import json, sys
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        class Fixed(S3SigV4Auth):
            def payload(self, request):
                return request.context["payload_text"]
        results = []
        for case in json.load(open(sys.argv[1])):
            credentials = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", case.get("token"))
            request = AWSRequest(method=case["method"], url=case["url"], headers=case["headers"], data=b"")
            request.context["payload_text"] = case["payload"]
            request.context["timestamp"] = case["date"]
            auth = Fixed(credentials, "s3", "eu-west-1")
            auth._modify_request_before_signing(request)
            canonical = auth.canonical_request(request)
            signature = auth.signature(auth.string_to_sign(request, canonical), request)
            auth._inject_signature_to_request(request, signature)
            results.append(request.headers["Authorization"])
        print(json.dumps(results))
        """
}
