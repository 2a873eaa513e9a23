import ConvoySupport
import Foundation

extension TestServer {
    /// How a route deals with the body of a request.
    public struct RouteOptions: OptionSet, Sendable {
        public let rawValue: Int

        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        /// The body is counted and its checksum taken, and nothing of it is kept: memory stays flat for any upload.
        public static let discardsBody = RouteOptions(rawValue: 1)
        /// "100 Continue" is never sent; the server waits for a body that the client has to send all the same.
        public static let withholdsContinue = RouteOptions(rawValue: 2)
        /// The answer goes out as soon as the head is there, whatever the body does; the connection is closed after
        /// it. To "Expect: 100-continue" the final status is thus the first answer (RFC 9110 section 10.1.1).
        public static let answersEarly = RouteOptions(rawValue: 4)
    }
}

/// What is done with a request, and where that runs.
enum RouteAction: Sendable {
    /// On the server's thread.
    case fixed(TestServer.Response)
    /// On the server's thread: the responses in turn, the last one for ever.
    case inTurn(Turns)
    /// On the server's thread.
    case file(ServedFile)
    /// On a handler thread.
    case handler(@Sendable (RecordedRequest) throws -> TestServer.Response)
    /// In a task that runs on the handler threads.
    case asyncHandler(@Sendable (RecordedRequest) async throws -> TestServer.Response)
}

/// Responses that are given one after the other.
final class Turns: Sendable {
    private let responses: [TestServer.Response]
    private let next = Locked(0)

    init(_ responses: [TestServer.Response]) {
        self.responses = responses
    }

    func take() -> TestServer.Response {
        guard let last = responses.last else { return .text("The route has no responses.", status: 500) }
        let index = next.withLock { next in
            defer { next += 1 }
            return next
        }
        return index < responses.count ? responses[index] : last
    }
}

/// A route as it was found for a request.
struct Route: Sendable {
    var action: RouteAction
    var options: TestServer.RouteOptions
}
