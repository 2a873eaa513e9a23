extension TestServer {
    /// Expects exactly `count` requests; checked by `verifyExpectations()`.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any.
    ///   - path: The path, or a prefix that ends in "*".
    ///   - count: The exact number of requests; 0 expects none.
    ///   - condition: A further condition for a request to count. Called by `verifyExpectations()` on its thread.
    public func expect(
        _ method: String?, _ path: String, count: Int = 1,
        where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        state.add(Expectation(method: method, path: path, count: count, condition: condition))
    }

    /// Expects exactly `count` requests for a path, with any method.
    public func expect(
        _ path: String, count: Int = 1, where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        expect(nil, path, count: count, where: condition)
    }

    /// A sentence for each expectation that is not met, and for each request without a route. Empty if all is well.
    public var unmetExpectations: [String] {
        let (requests, unexpected) = state.read { ($0.requests, $0.unexpected) }
        var sentences: [String] = []
        for expectation in state.expected {
            let count = requests.filter { expectation.isMet(by: $0) }.count
            if count != expectation.count {
                sentences.append("expected \(expectation.count) of \(expectation.description), received \(count)")
            }
        }
        for request in unexpected {
            sentences.append("received \(request.method) \(request.target), for which there is no route")
        }
        return sentences
    }

    /// Throws `TestServerError.unmetExpectations` if there are any `unmetExpectations`.
    public func verifyExpectations() throws(TestServerError) {
        let sentences = unmetExpectations
        guard sentences.isEmpty else { throw .unmetExpectations(sentences) }
    }
}
