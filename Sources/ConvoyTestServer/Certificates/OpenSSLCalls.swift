import COpenSSL
import Foundation

/// What every use of OpenSSL here shares.
enum OpenSSLCalls {
    /// The reason of this thread's last failure, whose queue of errors is left empty, so that nothing of it turns up in
    /// another use of OpenSSL on this thread.
    static func takeReason() -> String? {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard code != 0, let text = ERR_reason_error_string(code) else { return nil }
        return String(cString: text)
    }

    /// An error with this thread's last failure.
    static func failure(_ call: String) -> TestCertificateError {
        .openSSL(call: call, reason: takeReason() ?? "no reason given")
    }

    /// The bytes that a function of the `i2d_` kind writes; nil if it fails.
    static func bytes(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
        let count = Int(encode(nil))
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        let written = bytes.withUnsafeMutableBufferPointer { buffer in
            var position = buffer.baseAddress
            return encode(&position)
        }
        return written == Int32(count) ? bytes : nil
    }

    /// What a function writes to a file in memory; nil if it fails.
    static func text(_ write: (OpaquePointer) -> Bool) -> String? {
        guard let bio = convoy_bio_writing() else { return nil }
        defer { BIO_free_all(bio) }
        guard write(bio) else { return nil }
        var start: UnsafePointer<UInt8>?
        let count = convoy_bio_bytes(bio, &start)
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// The digest of bytes; empty if OpenSSL has none of this kind.
    static func digest(_ kind: OpaquePointer?, _ bytes: [UInt8]) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &result, &count, kind, nil) == 1 else {
            ERR_clear_error()
            return []
        }
        return Array(result[..<Int(count)])
    }

    /// "-----BEGIN LABEL-----" and so on.
    static func pem(_ label: String, _ data: Data) -> String {
        let text = data.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN \(label)-----\n\(text)\n-----END \(label)-----\n"
    }
}
