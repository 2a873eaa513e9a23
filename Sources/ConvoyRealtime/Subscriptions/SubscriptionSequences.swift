import ConvoySerialization

/// The values of a subscription as an asynchronous sequence; see ``Subscription/values``.
public struct SubscriptionValues<Value: Decodable & Sendable>: AsyncSequence, Sendable {
    /// A value.
    public typealias Element = Value

    let subscription: Subscription<Value>
    let reading: SubscriptionReading

    /// Iterates over the values.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let subscription: Subscription<Value>
        let reading: SubscriptionReading
        let isFirst: Bool

        /// The newest value, as soon as it is another; nil at the end.
        ///
        /// - Throws: the error of the subscription, or the decoder's.
        public mutating func next() async throws -> Value? {
            guard isFirst else { throw EventSourceError.isIterated }
            while try await reading.next() != nil {
                if let value = try subscription.decodedValue() { return value }
            }
            return nil
        }
    }

    /// An iterator, the only one that gets values.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(subscription: subscription, reading: reading, isFirst: reading.claim())
    }
}

/// The changes of a subscribed value as an asynchronous sequence; see ``Subscription/changes``.
public struct SubscriptionChanges: AsyncSequence, Sendable {
    /// A change.
    public typealias Element = SubscriptionChange

    let reading: SubscriptionReading

    /// Iterates over the changes.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let reading: SubscriptionReading
        let isFirst: Bool
        private var changes: ArraySlice<SubscriptionChange> = []

        init(_ reading: SubscriptionReading) {
            self.reading = reading
            isFirst = reading.claim()
        }

        /// The next change; nil at the end.
        ///
        /// - Throws: the error of the subscription.
        public mutating func next() async throws -> SubscriptionChange? {
            guard isFirst else { throw EventSourceError.isIterated }
            while changes.isEmpty {
                guard let group = try await reading.next() else { return nil }
                changes = group[...]
            }
            return changes.removeFirst()
        }
    }

    /// An iterator, the only one that gets changes.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}
