import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Tests that header values with a line break or a NUL, which would end the field, are rejected before sending.
@Suite struct HeaderInjectionTests {
    static let values = ["a\r\nX-Injected: b", "a\nb", "a\rb", "a\0b", "\r\n", "a\r\n b"]

    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route(nil, "/*", .text("{}"))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    private func expectRefusal(_ error: (any Error)?, _ comment: Comment) {
        guard let error else {
            Issue.record(comment)
            return
        }
        let reason = (error as NSError).userInfo[URLRequestSerializationErrorKey.reason] as? RequestSerializationFailure
        #expect(
            reason == .invalidHeaderValue || reason == .invalidPart || (error as? URLError)?.code == .badURL,
            "\(comment): \(error)")
        #expect(server.totalConnectionCount == 0)
    }

    private func error(of make: () async throws -> Void) async -> (any Error)? {
        do {
            try await make()
            return nil
        } catch {
            return error
        }
    }

    private func error(of request: URLRequest) async -> (any Error)? {
        await error { try await manager.enqueue(HTTPRequestOperation(request: request)).finished() }
    }

    @Test(arguments: values) func `an invalid value is rejected in every API that sets a header`(value: String) async throws
    {
        manager.requestSerializer.setValue(value, forHTTPHeaderField: "X-Token")
        expectRefusal(await error { try await manager.get("x") }, "the serializer's")
        expectRefusal(await error { try await manager.post("x", parameters: ["a": 1]) }, "the serializer's, of a form")
        manager.requestSerializer = JSONRequestSerializer()
        manager.requestSerializer.setValue(value, forHTTPHeaderField: "X-Token")
        expectRefusal(await error { try await manager.get("x") }, "the JSON serializer's")
        manager.requestSerializer = HTTPRequestSerializer()
        expectRefusal(await error { try await manager.get("x", headers: ["X-Token": value]) }, "a call's")
        expectRefusal(
            await error { try await manager.post("x", body: Data(), headers: ["Content-Type": value]) }, "a body's type")
        expectRefusal(
            await error {
                _ = try manager.requestSerializer.multipartFormRequest(
                    method: .post, url: server.url("/x"), parameters: nil, headers: ["X-Token": value]
                ) { $0.appendPart(formData: Data(), name: "a") }
            }, "a form's")
        expectRefusal(
            await error {
                _ = try manager.requestSerializer.multipartFormRequest(
                    method: .post, url: server.url("/x"), parameters: nil
                ) { $0.appendPart(headers: ["X-Token": value], body: Data()) }
            }, "a part's")
        var request = URLRequest(url: server.url("/x"))
        request.allHTTPHeaderFields = ["X-Token": value]
        expectRefusal(await error(of: request), "a request's, set as a dictionary")
        request.allHTTPHeaderFields = ["X-\(value)": "a"]
        expectRefusal(await error(of: request), "a request's name")
        let prepared = try manager.makeOperation(.get, "x")
        prepared.prepare = { $0.allHTTPHeaderFields = ["X-Token": value] }
        expectRefusal(await error { try await manager.enqueue(prepared).finished() }, "that of prepare")
        #expect(server.requests.isEmpty)
    }

    /// The behaviour that the documentation warns about. If this test fails, the warning can be removed.
    @Test(arguments: ["a\r\nb", "a\nb", "a\rb", "a\0b"])
    func `Foundation's own setter ignores an invalid value`(value: String) {
        var request = URLRequest(url: server.url("/x"))
        request.setValue("old", forHTTPHeaderField: "X-Token")
        request.setValue(value, forHTTPHeaderField: "X-Token")
        request.addValue(value, forHTTPHeaderField: "X-Other")
        #expect(request.allHTTPHeaderFields == ["X-Token": "old"])
    }
}
