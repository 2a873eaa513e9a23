import Foundation

/// An output stream that can discard what was written to it and start over, which Foundation's streams cannot.
///
/// Needed for a response that must be fetched again from its first byte, because the server cannot resume it or the
/// resource has changed.
public protocol RewindableOutputStream: OutputStream {
    /// Discards all bytes that were written since the stream was opened. Called on one of the library's threads.
    ///
    /// - Throws: the system's error.
    func rewind() throws
}
