import Foundation

/// Converts text to UTF-8 with iconv(3).
enum Iconv {
    /// Returns whether the system can convert from a charset.
    static func supports(_ name: String) -> Bool {
        guard let converter = converter(from: name) else { return false }
        iconv_close(converter)
        return true
    }

    /// Decodes bytes in a charset. Returns nil if the system does not support the charset, or if the bytes are invalid
    /// or incomplete.
    ///
    /// - Parameter recover: Called with the remaining bytes when iconv rejects them. It returns the text for the first
    ///   of these bytes and the number of bytes used, or nil if they are invalid.
    static func text(
        of data: Data, named name: String, recover: (UnsafeRawBufferPointer) -> (text: String, length: Int)? = { _ in nil }
    ) -> String? {
        guard let converter = converter(from: name) else { return nil }
        defer { iconv_close(converter) }
        var output: [UInt8] = []
        output.reserveCapacity(data.count)
        let isComplete = data.withUnsafeBytes { bytes -> Bool in
            var input = UnsafeMutablePointer(mutating: bytes.bindMemory(to: CChar.self).baseAddress)
            var left = bytes.count
            while left > 0 {
                // A full output buffer is not a failure.
                if append(to: &output, { iconv(converter, &input, &left, $0, $1) }) || errno == E2BIG { continue }
                let rest = UnsafeRawBufferPointer(rebasing: bytes[(bytes.count - left)...])
                guard let recovered = recover(rest), (1...left).contains(recovered.length) else { return false }
                output += recovered.text.utf8
                input = input?.advanced(by: recovered.length)
                left -= recovered.length
            }
            // Flush the letter that some charsets hold back in case a combining accent follows.
            return append(to: &output) { iconv(converter, nil, nil, $0, $1) }
        }
        return isComplete ? String(validating: output, as: UTF8.self) : nil
    }

    private static func converter(from name: String) -> iconv_t? {
        let converter = iconv_open("UTF-8", name)
        return converter == iconv_t(bitPattern: -1) ? nil : converter
    }

    /// Appends the output of an iconv call. Returns false if it fails, with `errno` set.
    private static func append(
        to output: inout [UInt8],
        _ convert: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, UnsafeMutablePointer<Int>) -> Int
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            var end = buffer.baseAddress
            var room = buffer.count
            let result = convert(&end, &room)
            let failure = errno
            output.append(contentsOf: UnsafeRawBufferPointer(buffer).prefix(buffer.count - room))
            errno = failure
            return result != -1
        }
    }
}
