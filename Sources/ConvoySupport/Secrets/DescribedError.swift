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

    /// What is missing or wrong in a document, and where. On Linux the `localizedDescription` of a `DecodingError` says
    /// neither.
    package static func text(of error: DecodingError) -> String {
        let (context, what): (DecodingError.Context, String?) =
            switch error {
            case .keyNotFound(let key, let context): (context, "The key \(key.stringValue.debugDescription) is missing.")
            case .valueNotFound(let type, let context): (context, "There is null in place of a value of type \(type).")
            case .typeMismatch(_, let context), .dataCorrupted(let context): (context, nil)
            @unknown default: (DecodingError.Context(codingPath: [], debugDescription: "\(error)"), nil)
            }
        var place = ""
        for key in context.codingPath {
            place += key.intValue.map { "[\($0)]" } ?? (place.isEmpty ? key.stringValue : ".\(key.stringValue)")
        }
        return "At \(place.isEmpty ? "the root" : place): \(what ?? context.debugDescription)"
    }

    /// What has happened, in a sentence with the URL, for an error of any type that is the reason of another one. Without
    /// secrets.
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

/// An error that an operation completes with the URL of its request.
package protocol URLNaming: Error {
    /// The same error with the URL, unless it has one.
    func naming(_ url: URL) -> Self
}

/// An error whose `localizedDescription` is its `description`.
package protocol SelfDescribingError: LocalizedError, CustomStringConvertible {}

extension SelfDescribingError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
