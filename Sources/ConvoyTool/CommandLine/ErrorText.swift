import Foundation
import FoundationNetworking

/// An error in the words of whoever made it, on one line.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        return Printable.line(words(of: error))
    }

    private static func words(of error: any Error) -> String {
        // The getter of a `URLError` is not asked: on Linux it knows only a general sentence for each code.
        if let text = (error as? URLError)?.userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let text = (error as NSError).userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let error = error as? POSIXError { return systemText(error.code.rawValue) }
        // Foundation's errors describe themselves for programmers; Swift's own have no other words.
        if error is URLError || error is CocoaError || type(of: error) is NSError.Type {
            // On Linux a sentence goes before that says nothing.
            return error.localizedDescription.replacing("The operation could not be completed. ", with: "")
        }
        return String(describing: error)
    }

    /// What the system says about an `errno`.
    static func systemText(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension URL {
    /// The URL for people: without the password, and with nothing that a terminal would obey.
    var forPeople: String {
        guard password != nil, var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else {
            return Printable.line(absoluteString)
        }
        components.password = "***"
        return Printable.line(components.string ?? "URL")
    }
}
