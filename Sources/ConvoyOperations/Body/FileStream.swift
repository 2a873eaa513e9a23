import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An output stream into a file whose name and failure are known, for errors that name them.
package protocol FileStream: OutputStream {
    /// The file that is written, or that is to be.
    var fileURL: URL { get }
    /// What the system said when opening, writing or closing failed.
    var failure: POSIXError? { get }
}

extension FileWritingError {
    /// What the system said.
    package var posixError: POSIXError { POSIXError(POSIXErrorCode(rawValue: cause.code) ?? .EIO) }
}

extension URLError {
    /// The error of a file that cannot be written, which it names.
    ///
    /// - Parameter url: where the bytes come from.
    package init(_ code: Code = .cannotWriteToFile, writing file: URL, url: URL?, underlying: any Error) {
        // Foundation's text for it begins with a phrase that says nothing.
        let reason = (underlying as? POSIXError).map { SystemError(code: $0.code.rawValue).text }
        self.init(
            code, url: url, "The file \(file.path) could not be written: \(reason ?? underlying.localizedDescription)",
            underlying: underlying)
    }
}
