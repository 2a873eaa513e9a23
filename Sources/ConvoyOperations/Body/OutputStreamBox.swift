import Foundation

/// Passes a stream on, from the user to an operation's own work. Foundation's streams are not Sendable.
package struct OutputStreamBox: @unchecked Sendable {
    let stream: OutputStream

    package init(stream: OutputStream) { self.stream = stream }
}
