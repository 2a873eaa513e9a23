import ConvoyTransport
import Foundation
import FoundationNetworking

/// The destination of a response body: a file, a part of a file, a user's stream, or a reader.
///
/// A sink is never used by two threads concurrently. A ``SinkQueue`` passes commands to it in order, on a worker
/// thread, where they may block.
package protocol BodySink: AnyObject, Sendable {
    /// Whether the sink is open from the start, so that ``open()`` need not be called.
    var isOpen: Bool { get }
    /// Whether the next command waits neither for another program or machine nor for user code, so that it can run on
    /// the network thread. This property is read on the network thread, or on the thread that has opened the sink.
    var isImmediate: Bool { get }
    /// Whether ``close()`` can run on the network thread as the next command.
    var closesImmediately: Bool { get }
    /// Whether the sink has a reader for which the transfer may have to wait.
    var isPaced: Bool { get }
    /// Whether the bytes are discarded unless they are committed, as for a file that appears at its destination only
    /// when complete.
    var isProvisional: Bool { get }

    /// Whether the sink opens a file, which requires a descriptor. If no descriptor is available, opening the sink or
    /// writing to it can be retried later. A provisional sink opens its file with the first byte.
    var opensFile: Bool { get }

    /// Prepares the sink for a body, without changing existing contents. Called before the request is sent.
    func open() throws(URLError)

    /// Returns whether the body of a response is written to the sink; otherwise the body is kept as `responseData`. If
    /// the result is nil, which is the default, the status code decides. Called on the network thread, possibly twice.
    func accepts(_ response: ResponseHead) -> Bool?

    /// Begins the body of an accepted response.
    ///
    /// - Parameter count: The number of bytes to discard. If it is 0, this method must neither block nor call user
    ///   code.
    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError)

    /// Appends bytes to those already written.
    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError)

    /// Returns whether the transfer must wait because the reader cannot accept more bytes for now. If so, `then` is
    /// called once, on any thread, when the reader can accept bytes again. Called on the network thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool

    /// Synchronizes the bytes of a complete provisional body with the disk, so that they survive a power failure.
    func synchronize() throws(URLError)

    /// Moves the bytes of a provisional body to their destination, after the response is complete and its serializer
    /// has accepted it.
    ///
    /// The operation finishes after the commit, and fails if the commit fails, so that no dependent runs without the
    /// bytes. A cancellation during the commit waits up to one second, and has no effect if the commit ends in that
    /// time.
    func commit() throws

    /// Closes the sink after a complete body that is not provisional.
    func close() throws(URLError)

    /// Ends the use of the sink. Called after `commit()`, or if the operation ends without a call of `close()`.
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
    /// The user's stream, if any. Foundation's streams are not `Sendable`, so only the sink uses it.
    let stream: OutputStream?

    init(_ sink: any BodySink) {
        self.sink = sink
        stream = nil
    }

    init(_ stream: OutputStream) {
        self.stream = stream
        sink = (stream as? FileOutputStream)?.sink ?? OutputStreamSink(stream)
    }
}
