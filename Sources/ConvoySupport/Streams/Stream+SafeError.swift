import Foundation

extension Stream {
    /// The stream's error, or nil where there is none. Asking one of Foundation's streams for `streamError` crashes on
    /// Linux unless there is one.
    package var safeError: (any Error)? { streamStatus == .error ? streamError : nil }
}
