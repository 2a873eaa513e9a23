import Foundation

/// An `NSError` whose description is one line: the localized description, the URL, and the domain and code.
///
/// On Linux Foundation's description contains everything in `userInfo`, including all header fields and the bytes of
/// the body, but `"(null)"` in place of the localized description.
package final class DescribedError: NSError, @unchecked Sendable {
    package override var description: String { ErrorDescription.line(of: self) }
}

/// Formats the one-line description of this library's errors.
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
    /// The same as `description`.
    public var errorDescription: String? { description }
}
