import COpenSSL
import Foundation

/// OpenSSL's form of a certificate. It is not changed after it was made, and so can be read by any thread.
final class X509Reference: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    /// Adds a reference of its own; nil if OpenSSL cannot.
    init?(sharing pointer: OpaquePointer) {
        guard X509_up_ref(pointer) == 1 else { return nil }
        self.pointer = pointer
    }

    deinit { X509_free(pointer) }

    /// The certificate in DER.
    var derData: Data {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(pointer, &bytes)
        defer { convoy_free(bytes) }
        guard count > 0, let bytes else { return Data() }
        return Data(bytes: bytes, count: Int(count))
    }
}
