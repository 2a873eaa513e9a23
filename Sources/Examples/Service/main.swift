// A client for a to-do service: typed calls, a shared token, and errors with the service's own messages.
//
//     ExampleService http://127.0.0.1:8080/v1/

import Convoy
import Foundation

struct Item: Codable, Sendable {
    var id: Int?
    var title: String
    var isDone = false
}

/// The error format of the service.
struct Problem: Codable, Error {
    var reason: String
}

/// The service. It is a value type; its manager can be used from any thread.
struct ToDoService: Sendable {
    private let manager: HTTPRequestOperationManager

    init(url: URL) {
        manager = HTTPRequestOperationManager(baseURL: url)
        manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
        manager.encoder.keyEncodingStrategy = .convertToSnakeCase
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 3)
        manager.totalTimeout = 30
    }

    func logIn(user: String, password: String) async throws {
        struct Session: Codable, Sendable { var token: String }
        let session: Session = try await explained {
            try await manager.post("login", body: ["user": user, "password": password])
        }
        manager.updateRequestSerializer { $0.setAuthorizationHeader(bearerToken: session.token) }
    }

    func items(done: Bool? = nil, page: Int = 1) async throws -> [Item] {
        try await explained { try await manager.get("items", parameters: ["done": done, "page": page]) }
    }

    func add(_ item: Item) async throws -> Item {
        try await explained { try await manager.post("items", body: item) }
    }

    func remove(_ id: Int) async throws {
        _ = try await explained { try await manager.delete("items/\(id)") }
    }

    /// Throws the service's own error message, if it sent one, instead of the status error.
    private func explained<Value>(_ call: () async throws -> Value) async throws -> Value {
        do {
            return try await call()
        } catch let error as HTTPError {
            throw (try? error.decoded(as: Problem.self)) ?? error
        }
    }
}

guard let url = CommandLine.arguments.dropFirst().first.flatMap(URL.init(string:)) else {
    print("usage: ExampleService URL")
    exit(2)
}
let service = ToDoService(url: url)
do {
    try await service.logIn(user: "ada", password: "secret")
    let added = try await service.add(Item(title: "Write a letter"))
    print("added:", added.id ?? 0, added.title)
    print("open:", try await service.items(done: false).map(\.title).joined(separator: ", "))
    try await service.remove(added.id ?? 0)
    print("removed:", added.id ?? 0)
    try await service.remove(4711)
} catch let problem as Problem {
    print("the service says:", problem.reason)
} catch {
    print(error)
    exit(1)
}
