import ConvoySupport

/// Responses that are given in turn; the last one is repeated.
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
