import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import ConvoyWorkflow
import Foundation

/// A sink that prints the body of a response for people. It formats a body when it is complete. Streams of lines, such as
/// server-sent events, and bodies that are too large to format are printed line by line as they arrive.
final class ReadableLines: BodySink {
    /// The size in bytes up to which a body is formatted.
    static let limit = 4 << 20
    /// The length in bytes after which a line without an end is printed.
    private static let longestLine = 64 << 10
    private static let lineTypes = [
        "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq",
        "application/jsonlines", "application/stream+json",
    ]

    private enum Mode { case collecting, lines, binary }

    private struct State {
        var mode = Mode.collecting
        var buffer = Data()
        var count: Int64 = 0
        var head: ResponseHead?
        /// Whether the head, or a part of the body, has been printed.
        var hasStarted = false
    }

    private let state = Locked(State())
    private let display: Display
    private let printsBody: Bool
    private let printHead: @Sendable (ResponseHead) -> Void

    /// - Parameter printHead: Prints the head before the first byte of the body.
    init(_ display: Display, printsBody: Bool, printHead: @escaping @Sendable (ResponseHead) -> Void) {
        self.display = display
        self.printsBody = printsBody
        self.printHead = printHead
    }

    /// Whether the response has been printed, at least in part.
    var hasStarted: Bool { state.withLock { $0.hasStarted } }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        let isPossible = state.withLock { state in
            state.head = response
            guard count > 0, printsBody else { return true }
            guard state.mode == .collecting else { return false }
            state.buffer = Data()
            state.count = 0
            return true
        }
        guard isPossible else {
            throw URLError(
                .cannotWriteToFile, url: nil,
                "The response must be fetched again from the start, but the output stream cannot be rewound.")
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        guard printsBody else { return }
        let isReady = state.withLock { state in
            if state.count == 0, let type = state.head.map(ReadableBody.mediaType), Self.lineTypes.contains(type) {
                state.mode = .lines
            }
            state.count += Int64(bytes.count)
            if state.mode != .binary { state.buffer.append(contentsOf: bytes) }
            if state.mode == .collecting, state.buffer.count > Self.limit {
                state.mode = state.buffer.contains(0) ? .binary : .lines
                if state.mode == .binary { state.buffer = Data() }
            }
            return state.mode == .lines
        }
        if isReady {
            start()
            for line in completeLines() { display.emit(line) }
        }
        guard Interruption.shared.status == nil else { throw URLError(.cancelled) }
    }

    func close() throws(URLError) {
        start()
        guard printsBody else { return }
        let state = state.withLock { $0 }
        switch state.mode {
        case .collecting:
            let body = ReadableBody(state.buffer, contentType: state.head?["Content-Type"])
            for line in TextPrinter.lines(of: body, display) { display.emit(line) }
        case .lines:
            if !state.buffer.isEmpty { display.emit(TextPrinter.line(String(decoding: state.buffer, as: UTF8.self))) }
        case .binary: display.emit(TextPrinter.binary(state.count))
        }
    }

    private func start() {
        let head = state.withLock { state -> ResponseHead? in
            guard !state.hasStarted else { return nil }
            state.hasStarted = true
            return state.head
        }
        if let head { printHead(head) }
    }

    /// Returns an index between two characters, at most three bytes before the end.
    private static func characterEnd(in buffer: Data) -> Data.Index {
        buffer.suffix(4).lastIndex { $0 & 0xC0 != 0x80 } ?? buffer.endIndex
    }

    /// Takes the complete lines from the buffer.
    private func completeLines() -> [String] {
        let bytes = state.withLock { state -> Data in
            let last = state.buffer.lastIndex(of: UInt8(ascii: "\n"))
            let isTooLong = last == nil && state.buffer.count > Self.longestLine
            guard let end = last.map({ $0 + 1 }) ?? (isTooLong ? Self.characterEnd(in: state.buffer) : nil) else {
                return Data()
            }
            defer { state.buffer = Data(state.buffer[end...]) }
            return state.buffer[..<end]
        }
        guard !bytes.isEmpty else { return [] }
        let lines = (bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes)
            .split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return lines.map { TextPrinter.line(String(decoding: $0, as: UTF8.self)) }
    }
}
