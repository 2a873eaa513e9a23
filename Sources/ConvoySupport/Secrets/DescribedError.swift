import Foundation

/// An error that describes itself in a line: what happened, where, and its domain and code.
///
/// On Linux Foundation describes an `NSError` by everything that is in its `userInfo`, with all header fields of a
/// response and the bytes of its body, and with `"(null)"` for the text that it has.
package final class DescribedError: NSError, @unchecked Sendable {
    package override var description: String { ErrorDescription.line(of: self) }
}

/// The line that an error of the library's describes itself by.
package enum ErrorDescription {
    /// A key in the `userInfo`: the `SecretClassifier` that applies in place of the standard one.
    package static let secretsKey = "ConvoySecrets"

    package static func line(of error: NSError) -> String {
        let secrets = error.userInfo[secretsKey] as? SecretClassifier ?? .standard
        let text = error.userInfo[NSLocalizedDescriptionKey] as? String ?? "The operation failed."
        var line = Redaction.text(text, secrets)
        if let url = error.userInfo[NSURLErrorFailingURLErrorKey] as? URL {
            let url = Redaction.url(url.absoluteString, secrets)
            if !line.contains(url) { line += " \(url)" }
        }
        return "\(line) (\(error.domain) \(error.code))"
    }
}

/// An error whose `localizedDescription` is its `description`.
package protocol SelfDescribingError: LocalizedError, CustomStringConvertible {}

extension SelfDescribingError {
    public var errorDescription: String? { description }
}
