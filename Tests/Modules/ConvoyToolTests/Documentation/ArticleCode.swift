import Convoy
import Foundation
import FoundationNetworking

// The code of the articles in Sources/Convoy/Convoy.docc, which is compiled and run here. `ArticleTests` checks that each
// code block of an article matches the code between two marks.

enum ArticleCode {
    struct User: Codable, Sendable {
        var name: String
    }

    struct Order: Codable, Sendable {
        var items: Int
    }

    struct Login: Codable, Sendable {
        var token: String
    }

    // MARK: Operations and dependencies

    static func chain(_ manager: HTTPRequestOperationManager) async throws -> User {
        // Article: Operations
        let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
        let profile = manager.operation(.get, "me", as: User.self)
        profile.depend(on: login) { login, request in
            request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
        }
        manager.enqueue([login, profile])
        let user = try await profile.value()
        // Article: end
        return user
    }

    static func report(
        _ manager: HTTPRequestOperationManager, _ first: HTTPRequestOperation, _ second: HTTPRequestOperation
    ) -> Operation {
        // Article: Operations
        let report = ScheduledBlockOperation {
            print(first.statusCode ?? 0, second.statusCode ?? 0)
        }
        report.addDependency(first)
        report.addDependency(second)
        manager.enqueue([first, second, report])
        // Article: end
        return report
    }

    static func observation(_ operation: HTTPRequestOperation) -> OperationObservation {
        // Article: Operations
        let observation = operation.observe(.state) { operation, change in
            print(change.oldValue, "to", change.newValue)
        }
        // Article: end
        return observation
    }

    static func group(_ manager: HTTPRequestOperationManager, _ operations: [HTTPRequestOperation]) -> DispatchGroup {
        // Article: Operations
        let group = DispatchGroup()
        for operation in operations { operation.completionGroup = group }
        manager.enqueue(operations)
        group.notify(queue: .global()) { @Sendable in print("all handlers have run") }
        // Article: end
        return group
    }

    // MARK: Pausing

    static func pause(_ manager: HTTPRequestOperationManager, _ file: URL) async throws -> HTTPRequestOperation {
        // Article: Pausing
        let download = try manager.makeOperation(.get, "film", headers: ["Accept-Encoding": "identity"])
        download.outputStream = FileOutputStream(fileURL: file)
        manager.enqueue(download)

        download.pause()  // ends the transfer and keeps the received bytes
        download.resume()  // requests the remaining bytes
        try await download.finished()
        // Article: end
        return download
    }

    static func pauseAll(_ manager: HTTPRequestOperationManager) {
        // Article: Pausing
        manager.requestOperationQueue?.pauseAll()
        manager.requestOperationQueue?.resumeAll()
        // Article: end
    }

    // MARK: Batches

    static func batch(_ manager: HTTPRequestOperationManager) async throws -> Int {
        var count = 0
        // Article: Batches
        let images = try (1...24).map { try manager.makeOperation(.get, "images/\($0).png") }
        for image in images { image.responseSerializer = HTTPResponseSerializer() }

        for image in try await manager.enqueueBatch(of: images) {
            if let error = image.error { print(error) } else { count += image.responseData?.count ?? 0 }
        }
        // Article: end
        return count
    }

    static func batchWithHandlers(
        _ manager: HTTPRequestOperationManager, _ operations: [HTTPRequestOperation]
    ) -> [Operation] {
        // Article: Batches
        let batch = URLConnectionOperation.batch(
            of: operations, completionQueue: manager.completionQueue,
            progress: { finished, total in print("\(finished) of \(total)") },
            completion: { operations in print(operations.filter { $0.error == nil }.count, "arrived") })
        manager.enqueue(batch)
        // Article: end
        return batch
    }

    // MARK: Serializers

    static func requestSerializers(_ manager: HTTPRequestOperationManager, _ order: Order) async throws {
        // Article: Serializers
        manager.requestSerializer.setAuthorizationHeader(bearerToken: "t0ken")
        manager.requestSerializer.queryStringStyle = .noBrackets

        try await manager.get("orders", parameters: ["state": "open", "tags": ["new", "big"], "page": nil])  // in the URL
        try await manager.post("orders", parameters: ["items": 2])  // a form
        try await manager.post("orders", body: order)  // JSON

        manager.requestSerializer = JSONRequestSerializer(http: manager.requestSerializer.http)
        try await manager.post("orders", parameters: ["items": 2])  // JSON, from now on
        // Article: end
    }

    static func responses(_ manager: HTTPRequestOperationManager) async throws -> (User, String, Data, JSON) {
        // Article: Serializers
        let user: User = try await manager.get("users/1")
        let text: String = try await manager.get("users/1")
        let bytes: Data = try await manager.get("users/1")
        let tree: JSON = try await manager.get("users/1")
        // Article: end
        return (user, text, bytes, tree)
    }

    static func operationSerializer(_ manager: HTTPRequestOperationManager) async throws -> HTTPRequestOperation {
        // Article: Serializers
        let operation = try manager.makeOperation(.get, "table")
        operation.responseSerializer = TableSerializer()
        try await manager.enqueue(operation).finished()
        print(operation.responseObject as? [[String]] ?? [])
        // Article: end
        return operation
    }

    // Article: Serializers
    struct TableSerializer: HTTPResponseSerialization {
        var http = HTTPResponseSerializer()

        func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
            try http.validate(response, data: data)
            let text = String(decoding: data ?? Data(), as: UTF8.self)
            return text.split(separator: "\n").map { $0.split(separator: ",").map(String.init) }
        }
    }
    // Article: end

    // MARK: Errors

    // Article: Errors
    struct Problem: Decodable {
        var title: String
    }
    // Article: end

    static func errors(_ manager: HTTPRequestOperationManager) async throws -> String {
        // Article: Errors
        let message: String
        do {
            let user: User = try await manager.get("users/7", timeout: 10)
            message = "Hello, \(user.name)."
        } catch let error as HTTPError where error.statusCode == 404 {
            message = try error.decoded(as: Problem.self).title
        } catch let error as URLError where error.code == .timedOut {
            message = "Ten seconds were not enough."
        } catch {
            message = "\(error)"  // one line: what happened, where, and the code
        }
        // Article: end
        return message
    }

    static func retryPost(_ operation: HTTPRequestOperation) {
        // Article: Retrying
        var policy = RetryPolicy()
        policy.idempotentMethods.insert("POST")
        operation.retryPolicy = policy
        operation.retryHandler = { operation, event in
            switch event.decision {
            case .retry(let delay): print("retry \(event.retryCount + 1) in \(delay) s:", event.reason)
            case .giveUp(let refusal): print("not retried:", refusal)
            default: print(event)
            }
        }
        // Article: end
    }
}
