import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import Foundation
import FoundationNetworking

/// The sequences, called by a loop (which uses `next(isolation:)`) and with `next()`.
enum StreamRows {
    static let all = bodies + events

    private static let bodies = [
        row("ResponseBytes.response") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.operation().bytes().response
        },
        row("ResponseBytes.AsyncIterator.next(isolation:)") { actor, attempt in
            defer { attempt.check(actor) }
            for try await _ in try attempt.operation().bytes() {}
        },
        row("ResponseBytes.AsyncIterator.next()") { actor, attempt in
            defer { attempt.check(actor) }
            var iterator = try attempt.operation().bytes().makeAsyncIterator()
            _ = try await iterator.next()
        },
        row("ResponseChunks.AsyncIterator.next(isolation:)") { actor, attempt in
            defer { attempt.check(actor) }
            for try await _ in try attempt.operation().bytes().chunks {}
        },
        row("ResponseChunks.AsyncIterator.next()") { actor, attempt in
            defer { attempt.check(actor) }
            var iterator = try attempt.operation().bytes().chunks.makeAsyncIterator()
            _ = try await iterator.next()
        },
        row("ResponseLines.AsyncIterator.next(isolation:)") { actor, attempt in
            defer { attempt.check(actor) }
            for try await _ in try attempt.operation().bytes().lines {}
        },
        row("ResponseLines.AsyncIterator.next()") { actor, attempt in
            defer { attempt.check(actor) }
            var iterator = try attempt.operation().bytes().lines.makeAsyncIterator()
            _ = try await iterator.next()
        },
    ]

    private static let events = [
        row("ServerSentEvents.AsyncIterator.next(isolation:)") { actor, attempt in
            defer { attempt.check(actor) }
            for try await _ in try attempt.manager.events(attempt.url("events")) { break }
        },
        row("ServerSentEvents.AsyncIterator.next()") { actor, attempt in
            defer { attempt.check(actor) }
            var iterator = try attempt.manager.events(attempt.url("events")).makeAsyncIterator()
            _ = try await iterator.next()
        },
        row("ValueSubscription.changes") { actor, attempt in
            defer { attempt.check(actor) }
            let subscription = try attempt.manager.makeSubscription(attempt.url("events"), as: JSON.self)
            for try await _ in subscription.changes { break }
        },
        row("ValueSubscription.changes") { actor, attempt in
            defer { attempt.check(actor) }
            let subscription = try attempt.manager.makeSubscription(attempt.url("events"), as: JSON.self)
            var iterator = subscription.changes.makeAsyncIterator()
            _ = try await iterator.next()
        },
        row("ValueSubscription.values") { actor, attempt in
            defer { attempt.check(actor) }
            let subscription = try attempt.manager.makeSubscription(attempt.url("events"), as: JSON.self)
            for try await _ in subscription.values { break }
        },
        row("ValueSubscription.values") { actor, attempt in
            defer { attempt.check(actor) }
            let subscription = try attempt.manager.makeSubscription(attempt.url("events"), as: JSON.self)
            var iterator = subscription.values.makeAsyncIterator()
            _ = try await iterator.next()
        },
    ]
}
