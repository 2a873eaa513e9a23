import Foundation

/// An output stream that keeps its bytes provisional until the response is accepted: for example, a file that gets its
/// final name only when it is complete.
///
/// Committing is part of the operation: the operation finishes after the commit, and fails if the commit fails, so that
/// no dependent runs without the bytes. A cancellation that comes while it commits waits for that for a second, and is
/// without effect if it ends in that time.
package protocol CommittingOutputStream: RewindableOutputStream {
    /// Puts the bytes in their final place: the response is complete and its serializer has accepted it.
    ///
    /// Called at most once, before `close()`, on one of the library's threads. A stream that is closed without a commit
    /// discards what was written to it. If the body is empty, `commit()` is called without any write before it.
    ///
    /// - Throws: an error, which becomes the operation's error.
    func commit() throws
}
