import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import Testing

/// Settings of the manager itself and of its queue, changed by several threads.
@Suite struct ManagerSettingsTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("/x", .json(text: "{}"))
        manager = HTTPRequestOperationManager(
            baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Settings"))
    }

    @Test func `concurrent updates of a serializer are not lost`() async throws {
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

    @Test func `the queue's limits and counts are accessible without a cast`() throws {
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
