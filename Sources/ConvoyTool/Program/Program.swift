import CEpoll
import Convoy
import ConvoyObjectStorage
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The program's name and version.
enum Program {
    static let version = ConvoyVersion.text
    /// The commit of a source archive, filled in by `git archive`. It is not set in a working copy.
    private static let commit = "$Format:%h$"
    /// The output of `--version`: the versions of the program and of the libraries it has loaded.
    static var description: String {
        let source = commit.hasPrefix("$") ? "" : " (commit \(commit))"
        return "convoy \(version)\(source)\n" + TransportLibraries.text
    }
    /// The default `User-Agent`.
    static let userAgent = "convoy/\(version)"
}

/// The exit status of the program.
enum ExitStatus: RawRepresentable, Equatable, Sendable {
    case success
    /// A failure without a dedicated status, or failures of several kinds.
    case failure
    case wrongUsage
    /// Failures of a single kind.
    case failed(FailureKind)
    /// The end of the program by a signal. A shell shows 128 plus the signal's number.
    case interrupted(signal: Int32)

    /// Creates the status of a run in which transfers failed in the given ways.
    init(failures: some Sequence<FailureKind>) {
        let kinds = Set(failures)
        switch kinds.count {
        case 0: self = .success
        case 1: self = kinds.first.map { .failed($0) } ?? .failure
        default: self = .failure
        }
    }

    var rawValue: Int32 {
        switch self {
        case .success: 0
        case .failure: 1
        case .wrongUsage: 2
        case .failed(let kind): kind.exitStatus
        case .interrupted(let signal): 128 + signal
        }
    }

    init?(rawValue: Int32) {
        switch rawValue {
        case 0: self = .success
        case 1: self = .failure
        case 2: self = .wrongUsage
        case 129...: self = .interrupted(signal: rawValue - 128)
        default:
            guard let kind = FailureKind.allCases.first(where: { $0.exitStatus == rawValue }) else { return nil }
            self = .failed(kind)
        }
    }

    /// Ends the program.
    func end() -> Never {
        if case .interrupted(let signal) = self { Interruption.end(by: signal) }
        // Do not call `exit`, which would free the state of OpenSSL while other threads may still use it.
        fflush(nil)
        cepoll_write_profile()
        _exit(rawValue)
    }
}

/// An error that ends the program, with a line for the user and an exit status.
struct ToolError: Error, Sendable {
    let text: String
    let status: ExitStatus

    static func usage(_ text: String) -> ToolError { ToolError(text: text, status: .wrongUsage) }
    static func failure(_ text: String) -> ToolError { ToolError(text: text, status: .failure) }
    /// The error of a transfer that the program has cancelled.
    static let cancelled = ToolError(text: "cancelled", status: .failed(.cancelled))
    /// Returns an error for a file that cannot be read or written, or already exists.
    static func disk(_ text: String) -> ToolError { ToolError(text: text, status: .failed(.disk)) }
}

extension ToolError: LocalizedError {
    var errorDescription: String? { text }
}

/// The kind of a failure, which determines the exit status and the `errorCode` of `--json`.
enum FailureKind: String, CaseIterable, Sendable {
    /// Any failure that has no dedicated kind.
    case other
    /// A line of a list that is read from a pipe is invalid.
    case usage
    /// The name of the server or proxy could not be resolved.
    case name
    /// The connection could not be made or was lost, or the response was invalid.
    case connection
    /// TLS failed, or the server is not trusted.
    case tls
    case timeout
    /// The server returned an error status.
    case status
    /// A file could not be read or written, or already exists.
    case disk
    /// The bytes do not match the checksum.
    case checksum
    /// The transfer was interrupted by a signal.
    case cancelled
    /// The request was not sent, because a dependency failed.
    case dependency

    var exitStatus: Int32 {
        switch self {
        case .usage: 2
        case .name: 3
        case .connection: 4
        case .tls: 5
        case .timeout: 6
        case .status: 7
        case .disk: 8
        case .checksum: 9
        case .other, .cancelled, .dependency: 1
        }
    }

    /// Creates the kind of an operation's error.
    ///
    /// - Parameter statusCode: The status code of the response, if any.
    init(_ error: any Error, statusCode: Int?) {
        switch error {
        case let error as ToolError:
            switch error.status {
            case .failed(let kind): self = kind
            case .wrongUsage: self = .usage
            default: self = .other
            }
        case let error as DownloadError: self.init(error)
        case let error as UploadError: self.init(error)
        case let error as ObjectStorageError: self.init(error)
        case let error as URLError: self.init(error, statusCode)
        default:
            let error = error as NSError
            let isStatus =
                error.domain == URLResponseSerializationErrorDomain && error.code == NSURLErrorBadServerResponse
            self = isStatus ? .status : .other
        }
    }

    private init(_ error: DownloadError) {
        self =
            switch error.reason {
            case .checksumMismatch, .piecesMismatch, .unexpectedLength: .checksum
            case .fileExists, .inUse, .notEnoughSpace, .unusableDestination: .disk
            case .changedType, .changedLength, .noContent: .connection
            case .noDestination, .noSource, .keepsChanging, .unsuitableRequest: .other
            }
    }

    private init(_ error: UploadError) {
        self =
            switch error.reason {
            case .checksumMismatch, .unexpectedLength, .damaged: .checksum
            case .noSource, .unreadableSource, .inUse, .unusableJournal: .disk
            case .gone, .tooLarge: .status
            case .invalidAnswer, .invalidOffset, .noProgress: .connection
            case .unsupported, .unsupportedVersion, .sourceChanged, .unsuitableRequest, .invalidMetadata, .missingSecrets,
                .bytesNotKept, .mayHaveArrived:
                .other
            }
    }

    private init(_ error: ObjectStorageError) {
        self =
            switch error.code {
            case .checksumMismatch: .checksum
            case .unreadableSource: .disk
            case .invalidConfiguration, .invalidKey, .invalidMetadata, .noCredentials: .usage
            case .sourceChanged, .sourceTooLarge, .noDigest: .other
            case .malformedAnswer: .connection
            default: .status
            }
    }

    private init(_ error: URLError, _ statusCode: Int?) {
        switch error.code {
        case .cannotFindHost, .dnsLookupFailed: self = .name
        case .cannotConnectToHost, .dataNotAllowed, .networkConnectionLost, .notConnectedToInternet, .badServerResponse,
            .cannotParseResponse, .cannotDecodeContentData, .cannotDecodeRawData:
            self = .connection
            if error.code == .badServerResponse, let statusCode, !(200..<300).contains(statusCode) { self = .status }
        case .secureConnectionFailed, .serverCertificateHasBadDate, .serverCertificateUntrusted,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
            .clientCertificateRequired, .appTransportSecurityRequiresSecureConnection:
            self = .tls
        case .timedOut: self = .timeout
        case .userAuthenticationRequired, .userCancelledAuthentication:
            self = statusCode == nil ? .connection : .status
        case .cannotCreateFile, .cannotOpenFile, .cannotCloseFile, .cannotWriteToFile, .cannotRemoveFile,
            .cannotMoveFile, .noPermissionsToReadFile:
            self = .disk
        case .cancelled: self = .cancelled
        default: self = .other
        }
    }
}
