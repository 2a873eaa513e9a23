import Foundation

/// An output stream that can forget what was written to it and start over, which Foundation's cannot.
///
/// A response that must be fetched again from its first byte (the server does not resume, or the resource has
/// changed) needs it.
public protocol RewindableOutputStream: OutputStream {
    /// Drops all bytes that were written since the stream was opened. Called on a thread of the library's own.
    ///
    /// - Throws: what the system said.
    func rewind() throws
}
