/// Takes the body of a response that is being stored. Its methods never block; they may be called from any thread, one
/// at a time.
package final class CacheWriter: Sendable {
    /// Takes the next bytes of the body, by copying them. Where the disk cannot keep up, the response is not stored.
    package func write(_ bytes: UnsafeRawBufferPointer) {}

    /// The body is complete.
    ///
    /// - Parameter then: is called once a following lookup would find the response, or when it is certain that it is not
    ///   stored: at once if it is kept in memory, later on the cache's queue if it goes to a file or a handler is asked.
    package func finish(_ then: @escaping @Sendable () -> Void) { then() }

    /// The body was cut off, or the request was cancelled: nothing is stored.
    package func abandon() {}
}
