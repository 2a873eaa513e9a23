import Foundation

/// An `NSError` with a one-line description: the localized description, the URL, the domain and the code.
///
/// On Linux, Foundation's description contains all of `userInfo`, including header fields and body bytes, but
/// `"(null)"` instead of the localized description.
package final class DescribedError: NSError, @unchecked Sendable {
    package override var description: String { ErrorDescription.line(of: self) }
}

/// Formats the one-line descriptions of this library's errors.
package enum ErrorDescription {
    /// The `userInfo` key of the `SecretClassifier` to use instead of the standard one.
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

    /// Describes what is missing or wrong in a document, and where. On Linux the `localizedDescription` of a
    /// `DecodingError` contains neither.
    package static func text(of error: DecodingError) -> String {
        let (context, what): (DecodingError.Context, String?) =
            switch error {
            case .keyNotFound(let key, let context): (context, "The key \(key.stringValue.debugDescription) is missing.")
            case .valueNotFound(let type, let context): (context, "Expected a value of type \(type), but found null.")
            case .typeMismatch(_, let context), .dataCorrupted(let context): (context, nil)
            @unknown default: (DecodingError.Context(codingPath: [], debugDescription: "\(error)"), nil)
            }
        var place = ""
        for key in context.codingPath {
            place += key.intValue.map { "[\($0)]" } ?? (place.isEmpty ? key.stringValue : ".\(key.stringValue)")
        }
        return "At \(place.isEmpty ? "the root" : place): \(what ?? context.debugDescription)"
    }

    /// Returns a one-sentence description of an error of any type, with its URL but without secrets, for use as the
    /// reason in another error.
    package static func reason(_ error: any Error) -> String {
        if let error = error as? DecodingError { return Redaction.text(text(of: error)) }
        let failure = error as NSError
        let described = (error as? any LocalizedError)?.errorDescription
        let text = described ?? failure.userInfo[NSLocalizedDescriptionKey] as? String ?? failure.localizedDescription
        let line = Redaction.text(text)
        guard let url = failure.userInfo[NSURLErrorFailingURLErrorKey] as? URL else { return line }
        let address = Redaction.url(url.absoluteString)
        return line.contains(address) ? line : "\(line) (\(address))"
    }
}

/// An error to which an operation adds the URL of its request.
package protocol URLNaming: Error {
    /// Returns the error with the URL added, unless it already has one.
    func naming(_ url: URL) -> Self
}

/// An error whose `localizedDescription` is its `description`.
package protocol SelfDescribingError: LocalizedError, CustomStringConvertible {}

extension SelfDescribingError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
