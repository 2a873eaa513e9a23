import ConvoyOperations
import Foundation

/// A sink for a body that also reports what it has received. All members may be used on any thread.
protocol BodyCounting: BodySink {
    /// The number of bytes received.
    var count: Int64 { get }
    /// The path of the file, or nil.
    var path: String? { get }
    /// The SHA-256 digest of all bytes in hexadecimal digits, or nil if it is not computed.
    var sha256: String? { get }
    /// Whether the file has been renamed to its final name.
    var isCommitted: Bool { get }
    /// The write error, with a better message than the engine's.
    var failure: ToolError? { get }
    /// Sets a closure to call before the first byte is written. It returns text to print first, or throws an error that
    /// prevents writing.
    func onStart(_ start: @escaping BodyStart)
    /// Keeps the body of an error response: prints it, or writes it to the file.
    func keep(_ body: Data) throws(ToolError)
}

/// A closure that is called before the first byte of a body is written.
typealias BodyStart = @Sendable () throws(ToolError) -> Data?
