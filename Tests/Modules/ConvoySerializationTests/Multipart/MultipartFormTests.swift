import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct MultipartFormTests {
    private let serializer = HTTPRequestSerializer()

    private func request(
        _ parameters: ParameterValue? = nil, _ construct: (inout MultipartFormData) throws -> Void = { _ in }
    ) throws -> URLRequest {
        try serializer.multipartFormRequest(url: exampleURL, parameters: parameters, constructingBody: construct)
    }

    private func boundary(_ request: URLRequest) throws -> String {
        let type = try #require(request.value(forHTTPHeaderField: "Content-Type"))
        let prefix = "multipart/form-data; boundary="
        try #require(type.hasPrefix(prefix))
        return String(type.dropFirst(prefix.count))
    }

    /// Returns the body with the boundary replaced by `B`, after verifying its length.
    private func body(_ request: URLRequest, block: Int = 1000) throws -> String {
        let stream = try #require(request.httpBodyStream)
        let data = try #require(readAll(stream, block: block))
        #expect(request.value(forHTTPHeaderField: "Content-Length") == String(data.count))
        return String(decoding: data, as: UTF8.self).replacingOccurrences(of: try boundary(request), with: "B")
    }

    @Test(arguments: [1, 7, 1000])
    func `parts are framed exactly for reads of any size`(block: Int) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(bytes("[1]"), to: "note.json")
        let request = try request(["b": ["x", "é"], "a": .null, "raw": .data(Data([0x41]))]) { form in
            form.appendPart(formData: bytes("v"), name: "field")
            form.appendPart(fileData: bytes("data"), name: "f", fileName: "n.txt", mimeType: "text/plain")
            try form.appendPart(fileURL: file, name: "file")
            form.appendPart(
                inputStream: InputStream(data: bytes("stream")), name: "s", fileName: "s.bin", length: 6,
                mimeType: "application/octet-stream")
            form.appendPart(headers: ["X-B": "2", "Content-Disposition": "form-data; name=\"h\""], body: bytes("own"))
            form.appendPart(formData: Data(), name: "empty")
        }
        let expected = """
            --B
            Content-Disposition: form-data; name="a"


            --B
            Content-Disposition: form-data; name="b[]"

            x
            --B
            Content-Disposition: form-data; name="b[]"

            é
            --B
            Content-Disposition: form-data; name="raw"

            A
            --B
            Content-Disposition: form-data; name="field"

            v
            --B
            Content-Disposition: form-data; name="f"; filename="n.txt"
            Content-Type: text/plain

            data
            --B
            Content-Disposition: form-data; name="file"; filename="note.json"
            Content-Type: application/json

            [1]
            --B
            Content-Disposition: form-data; name="s"; filename="s.bin"
            Content-Type: application/octet-stream

            stream
            --B
            Content-Disposition: form-data; name="h"
            X-B: 2

            own
            --B
            Content-Disposition: form-data; name="empty"


            --B--

            """
        #expect(try body(request, block: block) == expected.replacingOccurrences(of: "\n", with: "\r\n"))
        #expect(request.httpBody == nil)
        #expect(request.httpMethod == "POST")
    }

    @Test func `the boundary is random and has AFNetworking's form`() throws {
        var seen: Set<String> = []
        for _ in 0..<1000 { seen.insert(MultipartFormData.randomBoundary()) }
        #expect(seen.count == 1000)
        #expect(
            seen.allSatisfy { $0.hasPrefix("Boundary+") && $0.count == 25 && $0.dropFirst(9).allSatisfy(\.isHexDigit) })
    }

    @Test func `a form without parts does not change the request`() throws {
        let plain = try request()
        #expect(plain.httpBodyStream == nil)
        #expect(plain.httpBody == Data())
        #expect(plain.value(forHTTPHeaderField: "Content-Type") == "application/x-www-form-urlencoded")
        #expect(plain.value(forHTTPHeaderField: "Content-Length") == nil)
    }

    @Test(arguments: [
        ("a\"b", "a%22b", "a%22b"), ("a\r\nb", "a%0D%0Ab", "a%0D%0Ab"), ("a\nb", "a%0D%0Ab", "a%0Ab"),
        ("a\rb", "a%0D%0Ab", "a%0Db"), ("a\n\rb\r", "a%0D%0A%0D%0Ab%0D%0A", "a%0A%0Db%0D"),
        ("é\\;'%", "é\\;'%", "é\\;'%"), ("日本.txt", "日本.txt", "日本.txt"),
    ])
    func `names are escaped by the WHATWG standard`(text: String, name: String, fileName: String) throws {
        #expect(MultipartFormData.escapedName(text) == name)
        #expect(MultipartFormData.escape(text) == fileName)
        let body = try body(request { $0.appendPart(fileData: Data(), name: text, fileName: text, mimeType: "a/b") })
        #expect(body.contains("; name=\"\(name)\"; filename=\"\(fileName)\"\r\nContent-Type: a/b\r\n\r\n"))
    }

    @Test func `a value that would escape from a part's headers is rejected`() {
        let failures = [
            failure {
                try request { $0.appendPart(fileData: Data(), name: "n", fileName: "f", mimeType: "a/b\r\nX: 1") }
            },
            failure { try request { $0.appendPart(formData: Data(), name: "n\0") } },
            failure { try request { $0.appendPart(headers: ["X Y": "1"], body: Data()) } },
            failure { try request { $0.appendPart(headers: ["X": "1\n"], body: Data()) } },
            failure {
                try request {
                    $0.appendPart(
                        inputStream: InputStream(data: Data()), name: "n", fileName: "f", length: -1, mimeType: "a/b")
                }
            },
            failure { try request { $0.throttleBandwidth(packetSize: 0, delay: 1) } },
            failure { try request { $0.throttleBandwidth(packetSize: 1, delay: .nan) } },
        ]
        for error in failures {
            #expect(error?.domain == URLRequestSerializationErrorDomain)
            #expect(reason(error) == .invalidPart)
        }
    }

    @Test(arguments: ["GET", "HEAD", "get"])
    func `a method without a body is an error`(method: String) {
        let error = failure { try serializer.multipartFormRequest(method: HTTPMethod(method), url: exampleURL) }
        #expect(reason(error) == .invalidMethod)
    }

    @Test func `a URL that is not a readable file is rejected`() throws {
        let directory = try TemporaryDirectory()
        var form = MultipartFormData()
        let web = failure { try form.appendPart(fileURL: exampleURL, name: "n") }
        #expect(web?.domain == "com.alamofire.error.serialization.request")
        #expect(web?.code == -1000)
        #expect(web?.localizedFailureReason == "Expected URL to be a file URL")
        for path in [directory.url, directory.url.appendingPathComponent("missing"), URL(fileURLWithPath: "/dev/null")] {
            let error = failure { try form.appendPart(fileURL: path, name: "n") }
            #expect(error?.code == -1000)
            #expect(error?.localizedFailureReason == "File URL not reachable.")
            #expect(reason(error) == .unusableFile)
        }
        #expect(form.parts.isEmpty)
    }

    @Test func `an error thrown by the closure reaches the caller`() {
        struct Mine: Error {}
        #expect(throws: Mine.self) { try request { _ in throw Mine() } }
    }

    @Test func `fields are named in the serializer's style and written in its encoding`() throws {
        var serializer = serializer
        serializer.queryStringStyle = .dots.booleans(.literal)
        serializer.stringEncoding = .isoLatin1
        let request = try serializer.multipartFormRequest(url: exampleURL, parameters: ["a": ["b": [true, "é"]]])
        let stream = try #require(request.httpBodyStream)
        let data = try #require(readAll(stream))
        #expect(data.range(of: bytes("name=\"a.b[0]\"\r\n\r\ntrue\r\n")) != nil)
        #expect(data.range(of: bytes("name=\"a.b[1]\"\r\n\r\n") + Data([0xE9, 0x0D, 0x0A])) != nil)
        serializer.stringEncoding = .ascii
        #expect(
            reason(failure { try serializer.multipartFormRequest(url: exampleURL, parameters: ["a": "é"]) })
                == .invalidText)
    }

    @Test func `every serializer creates forms with its own headers`() throws {
        var json = JSONRequestSerializer()
        json.http.setValue("1", forHTTPHeaderField: "X-Test")
        let request = try json.multipartFormRequest(
            method: .put, url: exampleURL, headers: ["Content-Type": "text/x", "X-Own": "2"]
        ) { $0.appendPart(formData: bytes("v"), name: "n") }
        #expect(request.httpMethod == "PUT")
        #expect(request.value(forHTTPHeaderField: "X-Test") == "1")
        #expect(request.value(forHTTPHeaderField: "X-Own") == "2")
        #expect(try body(request) == "--B\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nv\r\n--B--\r\n")
    }

    @Test(arguments: [
        ("cer", "application/x-x509-ca-cert"), ("PNG", "image/png"), ("jpg", "image/jpeg"),
        ("json", "application/json"),
        ("mp4", "video/mp4"), ("plist", "application/x-plist"), ("nothing-known", "application/octet-stream"),
        ("", "application/octet-stream"),
    ])
    func `the extension determines the media type`(pathExtension: String, type: String) {
        #expect(MIMEType.type(forPathExtension: pathExtension) == type)
    }

    @Test func `the built-in table of media types has the common types and is well-formed`() {
        #expect((30...60).contains(MIMEType.builtIn.count))
        #expect(MIMEType.builtIn["webp"] == "image/webp")
        #expect(MIMEType.parse("# c\na/b x Y # z\nlonely\r\na/c x\nbad y\n") == ["x": "a/b", "y": "a/b"])
    }
}
