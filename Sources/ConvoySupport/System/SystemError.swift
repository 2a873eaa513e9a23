import Foundation

/// The error of a system call.
package struct SystemError: Error, Hashable, Sendable {
    /// Its `errno`.
    package let code: Int32

    /// - Parameter code: by default, that of this thread's last failed system call.
    package init(code: Int32 = errno) { self.code = code }

    /// The system's message.
    package var text: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The same in `NSPOSIXErrorDomain`, with the path of the file.
    package func error(path: String?) -> NSError {
        var userInfo: [String: Any] = [NSLocalizedDescriptionKey: text]
        userInfo[NSFilePathErrorKey] = path
        return NSError(domain: NSPOSIXErrorDomain, code: Int(code), userInfo: userInfo)
    }
}
