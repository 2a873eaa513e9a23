import CEpoll
import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The program's version and name.
enum Program {
    static let version = ConvoyVersion.text
    /// The commit that a source archive was made of, which `git archive` writes here; in a working copy there is none.
    private static let commit = "$Format:%h$"
    /// What `--version` prints: the program, and the libraries that it has loaded.
    static var description: String {
        let source = commit.hasPrefix("$") ? "" : " (commit \(commit))"
        return "convoy \(version)\(source)\n" + TransportLibraries.text
    }
    /// The default `User-Agent`.
    static let userAgent = "convoy/\(version)"
}

/// How the program ends.
enum ExitStatus: RawRepresentable, Equatable, Sendable {
    case success
    /// Something failed that has no status of its own, or several things in several ways.
    case failure
    case wrongUsage
    /// Everything that failed did so in this way.
    case failed(FailureKind)
    /// Ended by a signal. A shell shows 128 plus the signal's number.
    case interrupted(signal: Int32)

    /// The status of a run in which transfers failed in these ways.
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
        // Not `exit`: that clears away what OpenSSL needs, while other threads may still use it.
        fflush(nil)
        cepoll_write_profile()
        _exit(rawValue)
    }
}

/// An error that ends the program: a line for the user, and the exit status.
struct ToolError: Error, Sendable {
    let text: String
    let status: ExitStatus

    static func usage(_ text: String) -> ToolError { ToolError(text: text, status: .wrongUsage) }
    static func failure(_ text: String) -> ToolError { ToolError(text: text, status: .failure) }
    /// A file that cannot be read or written, or is in the way.
    static func disk(_ text: String) -> ToolError { ToolError(text: text, status: .failed(.disk)) }
}

extension ToolError: LocalizedError {
    var errorDescription: String? { text }
}

/// In what way a transfer failed: what the exit status and the `errorCode` of `--json` say.
enum FailureKind: String, CaseIterable, Sendable {
    /// A way that is none of the others.
    case other
    /// A line of a list that comes through a pipe is a mistake.
    case usage
    /// The name of the server, or of a proxy, was not found.
    case name
    /// No connection, or one that was lost, or an answer that is none.
    case connection
    /// TLS failed, or who is there is not trusted.
    case tls
    case timeout
    /// The server answered with an error.
    case status
    /// A file could not be read or written, or was in the way.
    case disk
    /// The bytes are not those that they must be.
    case checksum
    /// It was ended by a signal.
    case cancelled
    /// It was not sent, because what it depends on failed.
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

    /// The kind of an operation's error.
    ///
    /// - Parameter statusCode: that of the response, if there was one.
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
            case .noSource, .unreadableSource, .sourceChanged, .inUse, .unusableJournal: .disk
            case .gone, .tooLarge: .status
            case .unsupported, .unsupportedVersion, .invalidAnswer, .invalidOffset, .noProgress: .connection
            case .unsuitableRequest, .missingSecrets, .bytesNotKept, .mayHaveArrived: .other
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
