import COpenSSL

/// A certificate, its key and the rest of its chain as OpenSSL's objects, none of which changes.
final class ServedIdentity: @unchecked Sendable {
    let certificate: OpaquePointer
    let key: OpaquePointer
    let rest: OpaquePointer

    init(_ identity: TestCertificate, sending others: [TestCertificate]) throws(TestCertificateError) {
        guard let rest = convoy_x509_stack_new() else { throw OpenSSLCalls.failure("sk_X509_new_null") }
        do throws(TestCertificateError) {
            for other in others {
                try other.withObject { object throws(TestCertificateError) in
                    guard convoy_x509_stack_append(rest, object) == 1 else {
                        throw OpenSSLCalls.failure("sk_X509_push")
                    }
                }
            }
            (certificate, key) = try identity.withObject { certificate throws(TestCertificateError) in
                try identity.key.withObject { key throws(TestCertificateError) in
                    X509_up_ref(certificate)
                    EVP_PKEY_up_ref(key)
                    return (certificate, key)
                }
            }
        } catch {
            convoy_x509_stack_free(rest)
            throw error
        }
        self.rest = rest
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
        convoy_x509_stack_free(rest)
    }
}
