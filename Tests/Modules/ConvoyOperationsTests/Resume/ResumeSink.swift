import ConvoyOperations
import ConvoyTestSupport
import Foundation

/// The destination of the body of a generated case.
enum ResumeSink: String, CaseIterable, Sendable {
    case memory, file, foundationFile, slowStream, streamWithoutRewind

    /// Whether the sink can start over with a shorter body, so that an honest server's resource always fits.
    var canForget: Bool { self == .memory || self == .file || self == .slowStream }
}

/// The sink of one case, with its contents.
final class OpenedSink {
    private let kind: ResumeSink
    private let file: URL
    private var foreign: SlowStream?

    init(_ kind: ResumeSink, for operation: URLConnectionOperation, in directory: TemporaryDirectory, slowness: Int) {
        self.kind = kind
        file = directory.file(UUID().uuidString)
        switch kind {
        case .memory: break
        case .file: operation.outputStream = FileOutputStream(fileURL: file)
        case .foundationFile: operation.outputStream = OutputStream(toFileAtPath: file.path, append: false)
        case .slowStream: foreign = SlowRewindableStream(slowness: slowness)
        case .streamWithoutRewind: foreign = SlowStream(slowness: slowness)
        }
        if let foreign { operation.outputStream = foreign }
    }

    deinit { try? FileManager.default.removeItem(at: file) }

    /// Returns the body after a success.
    func body(of operation: URLConnectionOperation) -> Data {
        switch kind {
        case .memory: operation.responseData ?? Data()
        case .file, .foundationFile: (try? Data(contentsOf: file)) ?? Data()
        case .slowStream, .streamWithoutRewind: foreign?.data ?? Data()
        }
    }

    /// Whether a user's stream was closed as often as it was opened.
    var isBalanced: Bool { foreign?.isBalanced ?? true }
}
