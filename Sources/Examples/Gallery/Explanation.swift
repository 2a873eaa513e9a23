#if GTK
import Convoy
import Foundation
import FoundationNetworking

/// Sentences about failures, for people who want to see pictures.
enum Explanation {
    /// Returns a few words for the caption of a picture.
    static func words(for error: any Error) -> String {
        switch status(of: error) {
        case 401?, 403?: return "Access denied"
        case 404?, 410?: return "Not found"
        case let status? where status >= 400: return "Server error \(status)"
        default: break
        }
        switch (error as? URLError)?.code {
        case .notConnectedToInternet?: return "Offline"
        case .cannotFindHost?, .cannotConnectToHost?, .dnsLookupFailed?: return "Unreachable"
        case .timedOut?: return "Timed out"
        default: return (error as NSError).code == NSURLErrorCannotDecodeContentData ? "Not a picture" : "Not loaded"
        }
    }

    private static func status(of error: any Error) -> Int? {
        ((error as NSError).userInfo[URLResponseSerializationErrorKey.response] as? HTTPURLResponse)?.statusCode
    }

    /// Returns a sentence without the address and without codes.
    static func sentence(for error: any Error) -> String {
        let known = error as NSError
        if let status = status(of: error), let sentence = sentence(forStatus: status) { return sentence }
        if known.domain == URLResponseSerializationErrorDomain, known.code == NSURLErrorCannotDecodeContentData {
            return known.localizedFailureReason ?? "This is not a picture."
        }
        switch (error as? URLError)?.code {
        case .notConnectedToInternet?: return "You are offline."
        case .cannotFindHost?, .cannotConnectToHost?, .dnsLookupFailed?: return "The server cannot be reached."
        case .timedOut?: return "The server did not answer in time."
        case .networkConnectionLost?: return "The connection was lost."
        default: return known.localizedDescription
        }
    }

    /// Returns a sentence about the state of a download.
    static func sentence(for entry: DownloadQueue.Entry) -> String {
        switch entry.state {
        case .waiting: return entry.attempts > 0 ? "Waiting for the next attempt" : "Waiting"
        case .blocked: return "Waiting for another download"
        case .paused: return "Paused"
        case .running: return "Downloading"
        case .finished: return "Downloaded"
        case .cancelled: return "Cancelled"
        case .failed, .outcomeUnknown:
            if let status = entry.statusCode, let sentence = sentence(forStatus: status) { return sentence }
            // The description ends with the address and the codes of the error.
            let text = entry.errorDescription?.replacing(/\shttps?:\/\/\S+|\s\([\w.]+ -?\d+\)/, with: "")
            return text.flatMap { $0.isEmpty ? nil : $0 } ?? "The download failed."
        }
    }

    private static func sentence(forStatus status: Int) -> String? {
        switch status {
        case 401, 403: "The server denies access."
        case 404, 410: "The server has nothing at this address."
        case 429: "The server receives too many requests."
        case 500...: "The server has a problem (\(status))."
        case 400...: "The server rejects the request (\(status))."
        default: nil
        }
    }
}
#endif
