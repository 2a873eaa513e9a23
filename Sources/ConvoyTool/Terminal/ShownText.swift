import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// What is printed of URLs, header fields and texts: without what ``SecretClassifier`` takes for a secret, unless
/// `--show-secrets` is given.
enum Shown {
    private static let showsAll = Mutex(false)

    /// Whether secrets are printed as they are.
    static var secrets: Bool {
        get { showsAll.withLock { $0 } }
        set { showsAll.withLock { $0 = newValue } }
    }

    /// A URL, or what was meant to be one, as it was given.
    static func url(_ text: String) -> String { secrets ? text : Redaction.url(text) }

    /// A text with URLs in it.
    static func text(_ text: String) -> String { secrets ? text : Redaction.text(text) }

    /// The value of a header field.
    static func value(_ name: String, _ value: String, _ classifier: SecretClassifier = .standard) -> String {
        secrets ? value : classifier.shown(name, value)
    }
}

/// The message of an error, on one line.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        // The engine's words are for programs, which have no option of this name.
        let words = words(of: error).replacing("(totalTimeout)", with: "(--max-time)")
        return Printable.line(Shown.text(words))
    }

    private static func words(of error: any Error) -> String {
        if let refusal = (error as? URLError)?.addressRefusal, let network = refusal.network {
            // What -4 and -6 refuse is all of the other family.
            if "\(network)" == "::/0" { return "There is no address of IPv4 to connect to (--ipv4)." }
            if "\(network)" == "0.0.0.0/0" { return "There is no address of IPv6 to connect to (--ipv6)." }
        }
        // The URL stands before it.
        if let error = error as? DownloadError { return error.sentence }
        // `localizedDescription` of a `URLError` is not used: on Linux it has only a generic sentence for each code.
        if let text = (error as? URLError)?.userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let text = (error as NSError).userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let error = error as? POSIXError { return SystemError(code: error.code.rawValue).text }
        // Foundation's errors have a description for users; Swift errors only one for programmers.
        if error is URLError || error is CocoaError || type(of: error) is NSError.Type {
            // On Linux it begins with an empty phrase.
            return error.localizedDescription.replacing("The operation could not be completed. ", with: "")
        }
        return String(describing: error)
    }
}

extension URL {
    /// The URL for display: without the password, and without characters that control a terminal.
    var forPeople: String { Printable.line(Shown.url(absoluteString)) }
}
