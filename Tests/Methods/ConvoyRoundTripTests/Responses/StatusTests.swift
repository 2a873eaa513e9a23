import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Status codes, errors and redirects of an independent server.
@Suite(.needsHttpbin) struct StatusTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    // A 206 without a range request is an error.
    @Test(arguments: [200, 201, 202, 203, 204, 205, 226, 299])
    func `every success status succeeds`(status: Int) async throws {
        let operation = try await manager.response(.get, "status/\(status)")
        #expect(operation.statusCode == status && operation.error == nil)
        #expect(operation.responseObject == nil && operation.responseData?.isEmpty != false)
    }

    @Test(arguments: [
        300, 304, 306, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 412, 418, 421, 422, 429, 451, 499,
        500, 501, 502, 503, 504, 507, 511, 599,
    ])
    func `every other status is an error that names it`(status: Int) async throws {
        let (operation, error) = try await manager.failure(.get, "status/\(status)") { operation in
            operation.responseSerializer = HTTPResponseSerializer()
        }
        let failure = try #require(error as NSError?)
        #expect(failure.domain == URLResponseSerializationErrorDomain)
        #expect(failure.code == NSURLErrorBadServerResponse)
        #expect(failure.localizedDescription.hasPrefix("Request failed: "))
        #expect(failure.localizedDescription.hasSuffix("(\(status))"))
        #expect(operation.statusCode == status)
        let response = failure.userInfo[URLResponseSerializationErrorKey.response] as? HTTPURLResponse
        #expect(response?.statusCode == status)
    }

    @Test(arguments: ["POST", "PUT", "PATCH", "DELETE"])
    func `every verb reports the same status`(verb: String) async throws {
        let (operation, error) = try await manager.failure(HTTPMethod(verb), "status/503", parameters: ["a": "b"])
        #expect(operation.statusCode == 503 && (error as NSError?)?.code == NSURLErrorBadServerResponse)
    }

    @Test func `the parsed body of an error response comes with the error`() async throws {
        let (operation, error) = try await manager.failure(.get, "status/406")
        let message = "Client did not request a supported media type."
        #expect((operation.responseObject as? [String: Any])?["message"] as? String == message)
        #expect((error?.serializedResponseObject as? [String: Any])?["message"] as? String == message)
        #expect(operation.responseString?.contains(message) == true)
        let data = (error as NSError?)?.userInfo[URLResponseSerializationErrorKey.data] as? Data
        #expect(data == operation.responseData && data?.isEmpty == false)
    }

    @Test func `the text of an error response comes with the error`() async throws {
        let (operation, error) = try await manager.failure(.get, "status/418") { operation in
            operation.responseSerializer = StringResponseSerializer()
        }
        #expect((error?.serializedResponseObject as? String)?.contains("teapot") == true)
        #expect(operation.responseString?.contains("teapot") == true)
        #expect(operation.response?.value(forHTTPHeaderField: "X-More-Info") == "http://tools.ietf.org/html/rfc2324")
    }

    @Test func `an HTML page is not parsed as JSON`() async throws {
        let (operation, error) = try await manager.failure(.get, "html")
        let failure = try #require(error as NSError?)
        #expect(failure.code == NSURLErrorCannotDecodeContentData)
        #expect(failure.localizedDescription == "Request failed: unacceptable content-type: text/html")
        #expect(failure.userInfo[NSUnderlyingErrorKey] == nil)
        #expect(operation.responseObject == nil && operation.responseString?.contains("Herman Melville") == true)
    }

    @Test func `an HTML error page has a chain of both errors`() async throws {
        let (_, error) = try await manager.failure(.get, "nowhere")
        let failure = try #require(error as NSError?)
        #expect(failure.code == NSURLErrorBadServerResponse)
        #expect(failure.localizedDescription == "Request failed: not found (404)")
        let underlying = try #require(failure.userInfo[NSUnderlyingErrorKey] as? NSError)
        #expect(underlying.domain == URLResponseSerializationErrorDomain)
        #expect(underlying.code == NSURLErrorCannotDecodeContentData)
        #expect(underlying.localizedDescription == "Request failed: unacceptable content-type: text/html")
    }

    @Test func `a denied page is still readable as text`() async throws {
        let (operation, error) = try await manager.failure(.get, "deny")
        #expect((error as NSError?)?.localizedDescription == "Request failed: unacceptable content-type: text/plain")
        #expect(operation.responseString?.contains("YOU SHOULDN'T BE HERE") == true)
        let text = try await manager.send(.get, "deny") { $0.responseSerializer = StringResponseSerializer() }
        #expect((text.responseObject as? String)?.contains("YOU SHOULDN'T BE HERE") == true)
    }
}
