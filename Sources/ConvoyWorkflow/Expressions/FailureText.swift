import ConvoyDownloads
import ConvoySupport
import Foundation

/// Descriptions of exchange errors for the author of a manifest, who is not familiar with the engine.
enum FailureText {
    /// Returns a sentence with the URL, without secrets and without the names and numbers of errors.
    static func line(for error: any Error) -> String {
        // The engine's messages name its API rather than manifest keys.
        PlainWords.of(text(of: error)).replacing("its totalTimeout", with: "its limit (max-time)")
    }

    private static func text(of error: any Error) -> String {
        if let error = error as? EvaluationError { return error.message }
        if let error = error as? DownloadError { return error.description }
        if let error = error as? POSIXError { return SystemError(code: error.code.rawValue).text }
        if error is CancellationError { return "cancelled" }
        if !(error is any LocalizedError), type(of: error) is NSError.Type == false, !(error is URLError),
            !(error is CocoaError)
        {
            return String(describing: error)
        }
        // On Linux, Foundation's description begins with an empty phrase.
        return ErrorDescription.reason(error).replacing("The operation could not be completed. ", with: "")
    }
}
