import ConvoySupport
import Foundation

/// What Foundation says when a file cannot be read.
enum FileReading {
    /// The system's reason, in a few words.
    static func reason(_ error: any Error) -> String {
        // On Linux the underlying error is not always an `NSError`.
        let underlying = (error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
        for error in [underlying, error].compactMap({ $0 as NSError? }) where error.domain == NSPOSIXErrorDomain {
            return SystemError(code: Int32(truncatingIfNeeded: error.code)).text
        }
        return error.localizedDescription
    }
}
