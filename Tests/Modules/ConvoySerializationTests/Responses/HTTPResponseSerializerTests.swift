import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct HTTPResponseSerializerTests {
    private let body = bytes("body")

    private func serializer(_ types: Set<String>? = nil) -> HTTPResponseSerializer {
        var serializer = HTTPResponseSerializer()
        serializer.acceptableContentTypes = types
        return serializer
    }

    @Test func `an acceptable response returns its body`() throws {
        #expect(try serializer().responseObject(for: response(200, type: "text/x"), data: body) as? Data == body)
        #expect(try serializer().responseObject(for: response(299), data: nil) == nil)
    }

    @Test func `a missing or non-HTTP response is not validated`() throws {
        let plain = URLResponse(url: exampleURL, mimeType: "text/x", expectedContentLength: 4, textEncodingName: nil)
        #expect(try serializer(["text/y"]).responseObject(for: plain, data: body) as? Data == body)
        #expect(try serializer(["text/y"]).responseObject(for: nil, data: body) as? Data == body)
    }

    @Test func `the error for an unacceptable status contains the response, the URL and the body`() throws {
        let response = try response(404, type: "text/x")
        let error = failure { try serializer().responseObject(for: response, data: body) }
        #expect(error?.domain == "com.alamofire.error.serialization.response")
        #expect(error?.code == -1011)
        #expect(error?.localizedDescription == "Request failed: not found (404)")
        #expect(error?.userInfo[NSURLErrorFailingURLErrorKey] as? URL == exampleURL)
        #expect(error?.userInfo["com.alamofire.serialization.response.error.response"] as? HTTPURLResponse === response)
        #expect(error?.userInfo["com.alamofire.serialization.response.error.data"] as? Data == body)
        #expect(error?.serializedResponseObject as? Data == body)
        #expect(underlying(error) == nil)
    }

    @Test(arguments: [
        (199, "informational"), (300, "multiple choices"), (304, "not modified"), (399, "redirected"),
        (401, "unauthorized"), (418, "client error"), (500, "internal server error"), (599, "server error"),
    ])
    func `a status is described in Apple's words`(status: Int, words: String) throws {
        let error = failure { try serializer().validate(response(status), data: nil) }
        #expect(error?.localizedDescription == "Request failed: \(words) (\(status))")
        #expect(error?.userInfo[URLResponseSerializationErrorKey.data] == nil)
    }

    @Test func `an unacceptable content type is rejected`() throws {
        let error = failure {
            try serializer(["text/y"]).validate(response(200, type: "text/x; charset=utf-8"), data: body)
        }
        #expect(error?.domain == URLResponseSerializationErrorDomain)
        #expect(error?.code == -1016)
        #expect(error?.localizedDescription == "Request failed: unacceptable content-type: text/x")
        #expect(error?.userInfo[URLResponseSerializationErrorKey.data] as? Data == body)
        let absent = failure { try serializer(["text/y"]).validate(response(), data: body) }
        #expect(absent?.localizedDescription == "Request failed: the response has no content-type")
    }

    @Test func `the errors for the status and the content type are chained`() throws {
        let error = failure { try serializer(["text/y"]).validate(response(500, type: "text/x"), data: body) }
        #expect(error?.code == -1011)
        #expect(underlying(error)?.code == -1016)
        #expect(error?.has(code: -1016, in: URLResponseSerializationErrorDomain) == true)
    }

    @Test func `the content type of an empty body is ignored`() throws {
        try serializer(["text/y"]).validate(response(200, type: "text/x"), data: nil)
        try serializer(["text/y"]).validate(response(200, type: "text/x"), data: Data())
        try serializer(["text/y"]).validate(response(204), data: Data())
    }

    @Test(arguments: ["Text/Y", "text/y", "text/y;charset=utf-8", "text/y ; charset=utf-8"])
    func `content types are compared without parameters and case-insensitively`(type: String) throws {
        try serializer(["text/y"]).validate(response(200, type: type), data: body)
        try serializer(["TEXT/Y"]).validate(response(200, type: type), data: body)
    }

    @Test func `any status and any type can be accepted`() throws {
        var serializer = serializer()
        serializer.acceptableStatusCodes = nil
        #expect(try serializer.responseObject(for: response(599, type: "x/y"), data: body) as? Data == body)
    }

    @Test func `a success needs no response headers if no content type is required`() {
        #expect(serializer().acceptsWithoutHeaders(statusCode: 200))
        #expect(!serializer().acceptsWithoutHeaders(statusCode: 404))
        #expect(!serializer(["a/b"]).acceptsWithoutHeaders(statusCode: 200))
        #expect(!JSONResponseSerializer().acceptsWithoutHeaders(statusCode: 200))
    }

    @Test func `a StatusCodeSet supports set operations`() {
        #expect(StatusCodeSet(200..<300) == StatusCodeSet(200...299))
        #expect(StatusCodeSet(200..<250).union(StatusCodeSet(240..<300)) == .successful)
        #expect([201, 200, 202] as StatusCodeSet == StatusCodeSet(200...202))
        let every = StatusCodeSet(Int.min...Int.max).union([.min, .max])
        #expect(every.contains(599) && every.contains(.min))
        let set = StatusCodeSet.successful.union([404, 304])
        #expect(set.contains(200) && set.contains(404) && set.contains(304))
        #expect(!set.contains(199) && !set.contains(300) && !set.contains(405) && !([] as StatusCodeSet).contains(200))
    }
}
