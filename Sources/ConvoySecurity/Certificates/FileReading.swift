import ConvoySupport
import Foundation

/// What Foundation says when a file cannot be read.
enum FileReading {
    /// The system's reason, in a few words.
    static func reason(_ error: any Error) -> String {
        let error = error as NSError
        let underlying = error.userInfo[NSUnderlyingErrorKey] as? NSError
        for error in [underlying, error].compactMap({ $0 }) where error.domain == NSPOSIXErrorDomain {
            return SystemError(code: Int32(truncatingIfNeeded: error.code)).text
        }
        return error.localizedDescription
    }
}
