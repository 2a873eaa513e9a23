import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// The output of `convoy send`: the selected parts of the exchange, and the file for the body.
///
/// On a terminal, or with `--color always`, bodies are formatted; otherwise they are written unchanged. Bodies are written as
/// they arrive, unless the whole body is needed to check or capture values.
final class SendOutput: Sendable {
    /// The destination of a body that is not kept in memory.
    private enum Sink {
        case lines(ReadableLines)
        case bytes(DescriptorSink)
        case file(OutputFileSink)

        var body: any BodySink {
            switch self {
            case .lines(let sink): sink
            case .bytes(let sink): sink
            case .file(let sink): sink
            }
        }

        /// Whether the body has been written, at least in part.
        var hasWritten: Bool {
            switch self {
            case .lines(let sink): sink.hasStarted
            case .bytes(let sink): sink.count > 0
            case .file(let sink): sink.isCommitted
            }
        }

        var failure: ToolError? {
            switch self {
            case .lines: nil
            case .bytes(let sink): sink.failure
            case .file(let sink): sink.failure
            }
        }
    }

    private let display: Display
    private let parts: PrintedParts
    private let file: OutputFile?
    private let isPretty: Bool
    private let sink: Locked<Sink?>

    /// - Parameter streams: Whether the body may be written before the response is complete.
    init(_ options: Options, _ display: Display, streams: Bool) throws(ToolError) {
        self.display = display
        let isTerminal = display.terminals.contains(STDOUT_FILENO)
        let output = try options.value("output").map { path throws(ToolError) in
            guard !options.has("capture"), !options.has("head") else {
                throw options.usage("--output cannot be combined with --capture or --head")
            }
            return try OutputFile(path, option: "output")
        }
        isPretty = output == nil && (isTerminal || display.isColoured)
        var parts = try PrintedParts.selected(options, isTerminal: isTerminal && output == nil)
        file = output?.isStandardOutput == true ? nil : output
        if file != nil { parts.remove(.body) }
        self.parts = parts
        sink = Locked(nil)
        guard streams else { return }
        let made = try makeSink()
        sink.withLock { $0 = made }
    }

    private func makeSink() throws(ToolError) -> Sink {
        if let file {
            if file.isStream { return .bytes(DescriptorSink(path: file.path, staysOpen: true)) }
            return .file(try file.makeSink())
        }
        guard isPretty || !parts.contains(.body) else { return .bytes(DescriptorSink(path: nil)) }
        return .lines(ReadableLines(display, printsBody: parts.contains(.body)) { [weak self] in self?.printHead($0) })
    }

    /// The reason why the body could not be written, or nil.
    var failure: ToolError? { sink.withLock { $0?.failure } }

    /// Removes the incomplete file. The engine does so as well, but possibly after the end of the program.
    func discard() { if case .file(let sink)? = sink.withLock({ $0 }) { sink.discard() } }

    /// Prints the selected parts of a request, and prepares its operation.
    func prepare(_ operation: HTTPRequestOperation) {
        printRequest(operation)
        guard let sink = sink.withLock({ $0 }) else { return }
        if case .bytes(let bytes) = sink, file == nil {
            bytes.onStart { [weak self, weak operation] () throws(ToolError) in
                guard let self, let head = operation?.responseHead, parts.contains(.head) else { return nil }
                return Data(lines(of: head).map { $0 + "\n" }.joined().utf8)
            }
        }
        operation.setBodySink(sink.body)
    }

    // MARK: The request

    private func printRequest(_ operation: HTTPRequestOperation) {
        let request = operation.request
        if parts.contains(.requestHead) {
            let lines = try? HeadText.coloured(request, for: operation, display)
            for line in (lines ?? []) + [""] { display.emit(line) }
        }
        guard parts.contains(.requestBody) else { return }
        guard let data = request.httpBody else {
            if request.httpBodyStream != nil { display.emit("(the body is streamed and not shown)\n") }
            return
        }
        if isPretty {
            let body = ReadableBody(data, contentType: request.value(forHTTPHeaderField: "Content-Type"))
            for line in TextPrinter.lines(of: body, display) { display.emit(line) }
        } else {
            display.emit(String(decoding: data, as: UTF8.self))
        }
        if !parts.isDisjoint(with: [.head, .body]) { display.emit("") }
    }

    // MARK: The response

    /// Prints a response, unless it has been printed as it arrived.
    func finish(_ response: WorkflowResponse) throws(ToolError) {
        let hasWritten = sink.withLock { $0?.hasWritten } ?? false
        if let file, !hasWritten {
            // The reader of a pipe would have ended before a second opening.
            if case .bytes(let bytes)? = sink.withLock({ $0 }) {
                try bytes.finish(response.body)
            } else {
                try file.write(response.body)
            }
        }
        guard file != nil || !hasWritten else { return }
        if parts.contains(.head) {
            let lines = HeadText.lines(
                response.version, response.status, response.fields, showsSecrets: parts == .head, display)
            for line in lines + separator { display.emit(line) }
        }
        guard parts.contains(.body) else { return }
        guard isPretty else { return try StandardStreams.print(response.body) }
        for line in TextPrinter.lines(of: response.readable, display) { display.emit(line) }
    }

    private func printHead(_ head: ResponseHead) {
        guard parts.contains(.head) else { return }
        for line in lines(of: head) { display.emit(line) }
    }

    private func lines(of head: ResponseHead) -> [String] {
        HeadText.lines(head.httpVersion, head.statusCode, head.fields, showsSecrets: parts == .head, display) + separator
    }

    /// The empty line between a head and a body.
    private var separator: [String] { parts.contains(.body) ? [""] : [] }
}

extension StandardStreams {
    /// Writes bytes to standard output.
    static func print(_ data: Data) throws(ToolError) {
        do throws(SystemError) {
            try write(data, to: STDOUT_FILENO) { Interruption.shared.status == nil }
        } catch {
            throw ToolError(text: "cannot write to standard output: \(error.text)", status: .failure)
        }
    }
}
