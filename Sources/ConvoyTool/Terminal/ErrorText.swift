import ConvoySupport
import Foundation
import FoundationNetworking

/// An error on one line, in the words of the code that made it.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        return Printable.line(Redaction.text(words(of: error)))
    }

    private static func words(of error: any Error) -> String {
        // The getter of a `URLError` is not asked: on Linux it knows only a general sentence for each code.
        if let text = (error as? URLError)?.userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let text = (error as NSError).userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let error = error as? POSIXError { return SystemError(code: error.code.rawValue).text }
        // Foundation's errors describe themselves for programmers; Swift's own have no other words.
        if error is URLError || error is CocoaError || type(of: error) is NSError.Type {
            // On Linux a sentence that says nothing precedes it.
            return error.localizedDescription.replacing("The operation could not be completed. ", with: "")
        }
        return String(describing: error)
    }
}

extension URL {
    /// The URL for people: without the password, and with nothing that a terminal would obey.
    var forPeople: String { Printable.line(Redaction.url(absoluteString)) }
}
