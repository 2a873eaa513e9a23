import Foundation

extension Stream {
    /// The stream's error, or nil if there is none. On Linux, reading `streamError` of one of Foundation's streams
    /// crashes if there is none.
    package var safeError: (any Error)? { streamStatus == .error ? streamError : nil }
}
