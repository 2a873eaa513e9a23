import COpenSSL
import ConvoySupport
import Foundation

/// Functions that compare a host name with the names in certificates (RFC 9525).
extension HostName {
    /// OpenSSL flags: a wildcard matches an entire label, the common name is ignored (RFC 9525, sections 6.3 and 6.4).
    private static var checks: UInt32 {
        UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    }

    /// Returns whether a certificate names the host.
    func isNamed(by certificate: Certificate) -> Bool {
        let pointer = certificate.reference.pointer
        return switch kind {
        case .name(let name):
            X509_check_host(pointer, name, name.utf8.count, Self.checks, nil) == 1
                || Self.isUnderscoredName(name, coveredBy: certificate)
        case .address(let bytes): X509_check_ip(pointer, bytes, bytes.count, Self.checks) == 1
        }
    }

    /// Returns whether a wildcard in the certificate matches a name with an underscore. OpenSSL does not match
    /// wildcards with such names. curl and browsers do, under the same rule as for other names: the wildcard must be an
    /// entire label above at least two other labels.
    private static func isUnderscoredName(_ name: String, coveredBy certificate: Certificate) -> Bool {
        guard name.utf8.contains(UInt8(ascii: "_")), let dot = name.firstIndex(of: ".") else { return false }
        let parent = name[dot...]
        guard parent.dropFirst().contains(".") else { return false }
        return certificate.dnsNames.contains { pattern in
            pattern.utf8.first == UInt8(ascii: "*") && ASCII.equalIgnoringCase(pattern.utf8.dropFirst(), parent.utf8)
        }
    }

    /// Makes OpenSSL check the name when it verifies a chain. Returns false if OpenSSL fails.
    ///
    /// - Parameter certificate: The first certificate in the chain.
    func require(in parameters: OpaquePointer, of certificate: Certificate) -> Bool {
        X509_VERIFY_PARAM_set_hostflags(parameters, Self.checks)
        switch kind {
        case .name(let name):
            // Skip OpenSSL's check, which would reject the certificate.
            if Self.isUnderscoredName(name, coveredBy: certificate) { return true }
            return X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count) == 1
        case .address(let bytes): return X509_VERIFY_PARAM_set1_ip(parameters, bytes, bytes.count) == 1
        }
    }
}
