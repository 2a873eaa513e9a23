extension TestServer {
    /// Announces that exactly `count` requests will come; checked by `verifyExpectations()`.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any.
    ///   - path: The path, or a prefix that ends in "*".
    ///   - count: How many, exactly. 0 announces that none will come.
    ///   - condition: What else must hold of a request for it to count. Called by `verifyExpectations()` on its thread.
    public func expect(
        _ method: String?, _ path: String, count: Int = 1,
        where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        state.add(Expectation(method: method, path: path, count: count, condition: condition))
    }

    /// Announces that exactly `count` requests of a path will come, whatever their method.
    public func expect(
        _ path: String, count: Int = 1, where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        expect(nil, path, count: count, where: condition)
    }

    /// What was announced and did not come so, and what came without a route: a sentence each. Empty when all is well.
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

    /// Throws `TestServerError.unmetExpectations` with every difference between what was announced and what came.
    public func verifyExpectations() throws(TestServerError) {
        let sentences = unmetExpectations
        guard sentences.isEmpty else { throw .unmetExpectations(sentences) }
    }
}
