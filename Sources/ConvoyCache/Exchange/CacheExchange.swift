/// One hop of a request, as the cache accompanies it. Its methods never block and run nobody's code on the calling
/// thread.
package final class CacheExchange: Sendable {
    /// Asks what is stored.
    ///
    /// - Parameter then: is called exactly once: on the calling thread if no file must be read, else later on the
    ///   cache's queue.
    package func lookup(_ then: @escaping @Sendable (CacheAnswer) -> Void) { then(.miss) }

    /// The request is being sent: the age of the response counts from now (RFC 9111, section 4.2.3). Without this call,
    /// it counts from the answer of `lookup`.
    package func willSend() {}

    /// Takes the head of the network's response, after `lookup` has answered `miss` or `validate`.
    package func receive(_ head: CachedHead) -> CacheReaction { .pass }

    /// The transfer has failed before its head was complete.
    ///
    /// - Returns: the stored response that may be served in place of an error; nil for none.
    package func failed() -> StoredResponse? { nil }

    /// The hop has ended with none of the above.
    package func cancel() {}
}
