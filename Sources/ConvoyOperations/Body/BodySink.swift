import ConvoyTransport
import Foundation
import FoundationNetworking

/// The destination of a response body: a file, a part of one, a user's stream, or a reader.
///
/// It is used by one thread at a time. A ``SinkQueue`` passes it commands in order, on a worker thread, where they may
/// block.
package protocol BodySink: AnyObject, Sendable {
    /// Whether the sink does not have to be opened.
    var isOpen: Bool { get }
    /// Whether the next command waits neither for another program or machine nor for user code, so that it can run on
    /// the network thread. Read on that thread, or on the thread that has opened the sink.
    var isImmediate: Bool { get }
    /// Whether ``close()`` can run on the network thread as the next command.
    var closesImmediately: Bool { get }
    /// Whether the sink has a reader that the transfer may have to wait for.
    var isPaced: Bool { get }
    /// Whether the bytes are discarded unless they are committed, as for a file that appears at its destination only
    /// when complete.
    var isProvisional: Bool { get }

    /// Whether it opens a file that takes a descriptor. If no descriptor is available, opening it or writing to it can
    /// then be retried.
    var opensFile: Bool { get }

    /// Prepares for a body, without changing existing contents. Called before the request is sent.
    func open() throws(URLError)

    /// Whether the body of a response is written to the sink; otherwise it is kept as `responseData`. nil, the default,
    /// leaves the decision to the status code. Called on the network thread, possibly twice.
    func accepts(_ response: ResponseHead) -> Bool?

    /// Begins the body of an accepted response.
    ///
    /// - Parameter count: The number of bytes to discard. If it is 0, this must neither block nor call user code.
    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError)

    /// Writes bytes after the previous ones.
    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError)

    /// Whether the transfer must wait because the reader has enough bytes for now. If so, `then` is called once on any
    /// thread when there is room again. Called on the network thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool

    /// Waits until the bytes of a complete provisional body would survive a power failure.
    func synchronize() throws(URLError)

    /// Moves the bytes of a provisional body to their destination: the response is complete, and its serializer has
    /// accepted it.
    ///
    /// The commit is part of the operation, which finishes afterwards, and fails if the commit fails, so that no
    /// dependent runs without the bytes. A cancellation during the commit waits for one second, and has no effect if
    /// the commit ends in that time.
    func commit() throws

    /// Ends a complete body that is not provisional.
    func close() throws(URLError)

    /// Ends the use of the sink: after `commit()`, instead of `close()`, or when the operation has ended otherwise.
    func discard()
}

extension BodySink {
    package var isOpen: Bool { true }
    package var isImmediate: Bool { false }
    package var closesImmediately: Bool { isImmediate }
    package var isPaced: Bool { false }
    package var isProvisional: Bool { false }
    package var opensFile: Bool { false }
    package func open() throws(URLError) {}
    package func accepts(_ response: ResponseHead) -> Bool? { nil }
    package func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { false }
    package func synchronize() throws(URLError) {}
    package func commit() throws {}
    package func close() throws(URLError) {}
    package func discard() {}
}

/// The destination that was set for an operation's body.
struct BodyDestination: @unchecked Sendable {
    let sink: any BodySink
    /// The user's stream. Foundation's streams are not Sendable; only the sink uses it.
    let stream: OutputStream?

    init(_ sink: any BodySink) { (self.sink, stream) = (sink, nil) }

    init(_ stream: OutputStream) {
        self.stream = stream
        sink = (stream as? FileOutputStream)?.sink ?? OutputStreamSink(stream)
    }
}
