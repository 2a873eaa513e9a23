import ConvoyTransport
import Foundation
import FoundationNetworking

/// A place for the body of a response: a file, a part of one, a user's stream, a reader.
///
/// It is used by one thread at a time. A ``SinkQueue`` gives it its commands in their order, on a worker thread, where they
/// may block.
package protocol BodySink: AnyObject, Sendable {
    /// Whether there is nothing to open.
    var isOpen: Bool { get }
    /// Whether the next command waits neither for another program or machine nor for a user's code, so that it is carried
    /// out on the network thread. Asked there, or on the thread that has opened the sink.
    var isImmediate: Bool { get }
    /// Whether it has a reader, for whom the transfer may have to wait.
    var isPaced: Bool { get }
    /// Whether the bytes are discarded unless they are committed: a file, for example, that gets its name when it is whole.
    var isProvisional: Bool { get }

    /// Whether it opens a file that takes a descriptor. Then opening it, or writing to it, can be tried again where there is
    /// none.
    var opensFile: Bool { get }

    /// Prepares for a body, and leaves what is there unchanged. Called before the request is sent.
    func open() throws(URLError)

    /// A response was accepted, and its body comes next.
    ///
    /// - Parameter count: how many bytes were written, which are to be discarded. If there are none, this must not block,
    ///   nor call a user's code.
    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError)

    /// Writes bytes behind those before.
    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError)

    /// Whether the transfer is to wait, because the reader has enough for now. If so, `then` is called once when there is
    /// room again, on any thread. On the network thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool

    /// Waits until the bytes of a provisional body, which is whole, are where a power cut leaves them.
    func synchronize() throws(URLError)

    /// Puts the bytes of a provisional body in their final place: the response is whole, and its serializer has accepted it.
    ///
    /// That is part of the operation: it finishes afterwards, and fails if this fails, so that no dependent runs without the
    /// bytes. A cancellation meanwhile waits for a second, and is without effect if this ends in that time.
    func commit() throws

    /// Ends a body that is whole and not provisional.
    func close() throws(URLError)

    /// Ends the use of the sink: after `commit()`, in place of `close()`, or when the operation has ended otherwise.
    func discard()
}

extension BodySink {
    package var isOpen: Bool { true }
    package var isImmediate: Bool { false }
    package var isPaced: Bool { false }
    package var isProvisional: Bool { false }
    package var opensFile: Bool { false }
    package func open() throws(URLError) {}
    package func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { false }
    package func synchronize() throws(URLError) {}
    package func commit() throws {}
    package func close() throws(URLError) {}
    package func discard() {}
}

/// What was set as the place of an operation's body.
struct BodyPlace: @unchecked Sendable {
    let sink: any BodySink
    /// The stream that the user has set. Foundation's streams are not Sendable; only the sink uses it.
    let stream: OutputStream?

    init(_ sink: any BodySink) { (self.sink, stream) = (sink, nil) }

    init(_ stream: OutputStream) {
        self.stream = stream
        sink = (stream as? FileOutputStream)?.sink ?? ForeignStream(stream)
    }
}

extension URLConnectionOperation {
    /// Lets the body go into a sink of the library's, in place of memory or a user's stream. To be set before the operation
    /// begins.
    package final func setBodySink(_ sink: any BodySink) {
        set(BodyPlace?.some(BodyPlace(sink))) { swap(&$0.place, &$1) }
    }
}
