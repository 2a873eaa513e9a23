import Foundation

/// The error of a system call.
package struct SystemError: Error, Hashable, Sendable {
    /// Its `errno`.
    package let code: Int32

    /// - Parameter code: by default, why the last system call of this thread failed.
    package init(code: Int32 = errno) { self.code = code }

    /// What the system says about it.
    package var text: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The same in `NSPOSIXErrorDomain`, with the file that it is about.
    package func error(path: String?) -> NSError {
        var userInfo: [String: Any] = [NSLocalizedDescriptionKey: text]
        userInfo[NSFilePathErrorKey] = path
        return NSError(domain: NSPOSIXErrorDomain, code: Int(code), userInfo: userInfo)
    }
}
