import ConvoySupport
import Foundation
import FoundationNetworking

/// The message of an error, on one line.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        // The engine's words are for programs, which have no option of this name.
        let words = words(of: error).replacing("(totalTimeout)", with: "(--max-time)")
        return Printable.line(Redaction.text(words))
    }

    private static func words(of error: any Error) -> String {
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
    var forPeople: String { Printable.line(Redaction.url(absoluteString)) }
}
