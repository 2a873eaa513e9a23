import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// A sink that writes the body of a response to an ``OutputFile`` as it arrives. The file is replaced when the body is
/// complete, and keeps its permissions.
final class OutputFileSink: BodySink {
    /// The state of the file, which is used only while holding the lock.
    private struct State: @unchecked Sendable {
        let writer: FileWriter
        var failure: ToolError?
        var isCommitted = false
    }

    private let state: Locked<State>
    private let target: String
    private let mode: mode_t
    private let fail: @Sendable (String) -> ToolError

    /// - Parameters:
    ///   - target: The path with links resolved.
    ///   - mode: The permissions of the complete file.
    init(_ target: String, mode: mode_t, failure: @escaping @Sendable (String) -> ToolError) {
        self.target = target
        self.mode = mode
        fail = failure
        state = Locked(State(writer: FileWriter(private: target)))
    }

    var isProvisional: Bool { true }
    var opensFile: Bool { true }

    /// Whether the file contains the body.
    var isCommitted: Bool { state.withLock { $0.isCommitted } }
    var failure: ToolError? { state.withLock { $0.failure } }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        try attempt { (writer) throws(FileWritingError) in if writer.isOpen { try writer.rewind() } }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        try attempt { (writer) throws(FileWritingError) in
            try writer.open()
            try writer.write(bytes)
        }
    }

    func commit() throws {
        try attempt { (writer) throws(FileWritingError) in
            try writer.open()
            try writer.commit()
        }
        guard chmod(target, mode) == 0 else { throw fail(SystemError().text) }
        state.withLock { $0.isCommitted = true }
    }

    func discard() { state.withLock { $0.writer.discard() } }

    private func attempt(_ body: (FileWriter) throws(FileWritingError) -> Void) throws(URLError) {
        try state.withLock { state throws(URLError) in
            do throws(FileWritingError) {
                try body(state.writer)
            } catch {
                let failure = fail(error.cause.text)
                if !error.cause.lacksDescriptor { state.failure = failure }
                throw URLError(.cannotWriteToFile, url: nil, failure.text, underlying: failure)
            }
        }
    }
}
