import Foundation

/// An output stream that holds back what is written to it until it hears that it is the response: a file that gets
/// its name only when it is whole.
///
/// To put the bytes in their place is part of the operation. It finishes when that is done, and fails where it cannot
/// be done, so that nothing that depends on it goes on without them.
package protocol CommittingOutputStream: RewindableOutputStream {
    /// The response is whole, and its serializer has accepted it: puts the bytes in their place.
    ///
    /// Called once at most, before `close()`, on a thread of the library's own. A stream that is closed without it
    /// drops what was written to it. It may come for a stream that nothing was written to: the body is empty.
    ///
    /// - Throws: what becomes the operation's error.
    func commit() throws
}
