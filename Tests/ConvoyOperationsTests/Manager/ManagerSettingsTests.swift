import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import Testing

/// A manager is set up in place, as in AFNetworking.
@Suite struct ManagerSettingsTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("/x", .json(text: "{}"))
        manager = HTTPRequestOperationManager(
            baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Settings"))
    }

    @Test(arguments: [true, false]) func `headers are set on the serializer in its place`(isJSON: Bool) async throws {
        if isJSON { manager.requestSerializer = JSONRequestSerializer() }
        manager.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        manager.requestSerializer.setAuthorizationHeader(username: "ada", password: "secret")
        manager.requestSerializer.timeoutInterval = 7
        manager.requestSerializer.queryStringStyle = .noBrackets
        let operation = try await manager.get("x", parameters: ["a": [1, 2]])
        let request = try #require(server.requests.last)
        #expect(request.headers["X-One"] == "one" && request.headers["Authorization"] == "Basic YWRhOnNlY3JldA==")
        #expect(request.query == "a=1&a=2" && operation.request.timeoutInterval == 7)
        #expect(manager.requestSerializer.value(forHTTPHeaderField: "x-one") == "one")
        manager.requestSerializer.clearAuthorizationHeader()
        manager.requestSerializer.setAuthorizationHeader(bearerToken: "t")
        try await manager.get("x")
        #expect(server.requests.last?.headers["Authorization"] == "Bearer t")
    }

    @Test func `an operation's serializer is set up in its place`() async throws {
        server.route("/text", .bytes(Data(#"{"a":1}"#.utf8), type: "text/plain"))
        let operation = try manager.makeOperation(.get, "text")
        operation.responseSerializer.acceptableContentTypes = nil
        try await manager.enqueue(operation).finished()
        #expect((operation.responseObject as? [String: Int]) == ["a": 1])
        #expect(manager.responseSerializer.acceptableContentTypes != nil)
    }

    @Test func `no update of a serializer is lost`() async throws {
        await withTaskGroup { group in
            for task in 0..<8 {
                group.addTask { [manager] in
                    for number in 0..<50 {
                        manager.updateRequestSerializer {
                            $0.setValue("1", forHTTPHeaderField: "X-\(task)-\(number)")
                        }
                        manager.updateResponseSerializer {
                            $0.acceptableContentTypes?.insert("x/\(task)-\(number)")
                        }
                    }
                }
            }
        }
        #expect(manager.requestSerializer.httpRequestHeaders.keys.filter { $0.hasPrefix("X-") }.count == 400)
        #expect(manager.responseSerializer.acceptableContentTypes?.filter { $0.hasPrefix("x/") }.count == 400)
        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try manager.updateRequestSerializer { serializer in
                serializer.setValue("1", forHTTPHeaderField: "X-Refused")
                throw Refusal()
            }
        }
        #expect(manager.requestSerializer.value(forHTTPHeaderField: "X-Refused") == nil)
    }

    @Test func `the queue's limits and counts need no cast`() throws {
        #expect(manager.maxConcurrentOperationCount == 256 && manager.maxConcurrentOperationCountPerHost == 64)
        manager.maxConcurrentOperationCount = 3
        manager.maxConcurrentOperationCountPerHost = 2
        #expect(manager.requestOperationQueue?.maxConcurrentOperationCountPerHost == 2)
        #expect(manager.operationQueue.maxConcurrentOperationCount == 3)
        manager.operationQueue.isSuspended = true
        let operation = try manager.enqueue(manager.makeOperation(.get, "x"))
        #expect(manager.queuedOperationCount == 1)
        manager.cancelAllOperations()
        #expect(operation.isFinished)
        manager.operationQueue = OperationQueue()
        #expect(manager.requestOperationQueue == nil && manager.maxConcurrentOperationCountPerHost == .max)
        #expect(manager.queuedOperationCount == 0)
    }
}
