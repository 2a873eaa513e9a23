import ConvoyDownloads
import ConvoyOperations
import ConvoySession
import Foundation
import FoundationNetworking

/// The functions for the HTTP verbs of both managers.
enum HTTPManagerRows {
    static let all =
        rows { HTTPRequestOperationManager(baseURL: $0) } + rows { HTTPSessionManager(baseURL: $0) } + batches

    private static func rows<Manager: HTTPManager>(_ make: @escaping @Sendable (URL) -> Manager) -> [ExecutorRow] {
        let manager: @Sendable (Attempt) -> Manager = { make($0.url("")) }
        return verbs(manager) + values(manager) + uploads(manager)
    }

    private static func verbs(_ manager: @escaping @Sendable (Attempt) -> some HTTPManager) -> [ExecutorRow] {
        [
            row("HTTPManager.get(_:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).get("value", parameters: ["a": 1])
            },
            row("HTTPManager.head(_:parameters:headers:timeout:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).head("value", parameters: ["a": 1])
            },
            row("HTTPManager.post(_:parameters:body:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).post("value", parameters: ["a": 1])
            },
            row("HTTPManager.put(_:parameters:body:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).put("value", parameters: ["a": 1])
            },
            row("HTTPManager.patch(_:parameters:body:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).patch("value", parameters: ["a": 1])
            },
            row("HTTPManager.delete(_:parameters:body:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).delete("value", parameters: ["a": 1])
            },
            row("HTTPManager.response(_:_:parameters:body:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).response(.get, "value", parameters: ["a": 1])
            },
            row("HTTPManager.download(_:to:existing:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).download("value", to: attempt.file())
            },
            row("HTTPManager.bytes(_:_:parameters:body:headers:timeout:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).bytes(.get, "value")
            },
        ]
    }

    private static func values(_ manager: @escaping @Sendable (Attempt) -> some HTTPManager) -> [ExecutorRow] {
        [
            row("HTTPManager.get(_:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).get("value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.post(_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).post("value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.put(_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).put("value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.patch(_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).patch("value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.delete(_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).delete("value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.value(_:_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).value(.get, "value", parameters: ["a": 1], as: [Int].self)
            },
            row("HTTPManager.response(_:_:parameters:body:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).response(.get, "value", parameters: ["a": 1], as: [Int].self)
            },
        ]
    }

    private static func uploads(_ manager: @escaping @Sendable (Attempt) -> some HTTPManager) -> [ExecutorRow] {
        [
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).upload("value", from: .data(Data("text".utf8)))
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).upload("value", from: .data(Data("text".utf8)), as: [Int].self)
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).upload("value", from: .file(attempt.writtenFile()))
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).upload("value", from: .file(attempt.writtenFile()), as: [Int].self)
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).upload("value", from: .stream(InputStream(data: Data("text".utf8)), length: 4))
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).upload(
                    "value", from: .stream(InputStream(data: Data("text".utf8)), length: 4), as: [Int].self)
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).upload("value", from: .sequence(attempt.pieces))
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).upload("value", from: .sequence(attempt.pieces), as: [Int].self)
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).upload("value", from: .sequence { attempt.pieces })
            },
            row("HTTPManager.upload(_:method:from:parameters:headers:timeout:progress:as:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).upload("value", from: .sequence { attempt.pieces }, as: [Int].self)
            },
            row("HTTPManager.post(_:parameters:headers:timeout:progress:constructingBody:)") { actor, attempt in
                defer { attempt.check(actor) }
                try await manager(attempt).post("value") { $0.appendPart(formData: Data("text".utf8), name: "a") }
            },
            row("HTTPManager.post(_:parameters:headers:timeout:progress:as:constructingBody:)") { actor, attempt in
                defer { attempt.check(actor) }
                _ = try await manager(attempt).post("value", as: [Int].self) {
                    $0.appendPart(formData: Data("text".utf8), name: "a")
                }
            },
        ]
    }

    private static let batches = [
        row("HTTPManager.enqueueBatch(of:progress:)", [.success, .cancellation]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.manager.enqueueBatch(of: [attempt.operation()])
        },
        row("HTTPManager.enqueueBatch(of:progress:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.manager.enqueueBatch(of: [attempt.manager.operation(.get, attempt.url(), as: [Int].self)])
        },
        row("HTTPManager.withBatch(of:isolation:_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.manager.withBatch(of: [attempt.operation()]) { finished in
                defer { attempt.check(actor) }
                for await operation in finished { if let error = operation.error { throw error } }
            }
        },
    ]
}
