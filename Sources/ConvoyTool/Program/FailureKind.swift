import Convoy
import Foundation
import FoundationNetworking

/// In what way a transfer failed: what the exit status and the `errorCode` of `--json` say.
enum FailureKind: String, CaseIterable, Sendable {
    /// A way that is none of the others.
    case other
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
            if case .failed(let kind) = error.status { self = kind } else { self = .other }
        case let error as DownloadError: self.init(error)
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
            switch error {
            case .checksumMismatch, .piecesMismatch, .unexpectedLength: .checksum
            case .fileExists, .inUse, .notEnoughSpace, .unusableDestination: .disk
            case .changedType, .noContent: .connection
            case .noDestination, .noSource, .keepsChanging, .unsuitableRequest: .other
            }
    }

    private init(_ error: URLError, _ statusCode: Int?) {
        switch error.code {
        case .cannotFindHost, .dnsLookupFailed: self = .name
        case .cannotConnectToHost, .networkConnectionLost, .notConnectedToInternet, .badServerResponse,
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
