import COpenSSL

/// Which names an authority may certify (RFC 5280, section 4.2.1.10), asked for one host.
enum NameConstraints {
    /// OpenSSL's number for what an authority says against certificates for a host; `X509_V_OK` if it says nothing.
    ///
    /// Addresses are left out: no wildcard names them, so that OpenSSL has compared the same ones.
    static func code(of authority: Certificate, for host: HostName) -> Int32 {
        guard case .name(let name) = host.kind,
            convoy_x509_has_name_constraints(authority.reference.pointer) == 1
        else { return X509_V_OK }
        guard let constraints = convoy_x509_name_constraints(authority.reference.pointer) else {
            return X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX
        }
        defer { NAME_CONSTRAINTS_free(constraints) }
        let host = Array(name.utf8)
        if subtrees(constraints, isExcluded: true).contains(where: { contains($0, host) }) {
            return X509_V_ERR_EXCLUDED_VIOLATION
        }
        let permitted = subtrees(constraints, isExcluded: false)
        return permitted.isEmpty || permitted.contains { contains($0, host) } ? X509_V_OK : X509_V_ERR_PERMITTED_VIOLATION
    }

    /// The subtrees of DNS names.
    private static func subtrees(
        _ constraints: UnsafePointer<NAME_CONSTRAINTS>, isExcluded: Bool
    ) -> [UnsafeBufferPointer<UInt8>] {
        (0..<convoy_name_constraints_count(constraints, isExcluded ? 1 : 0)).compactMap { index in
            var count: Int32 = 0
            let bytes = convoy_name_constraint(constraints, isExcluded ? 1 : 0, index, &count)
            return bytes.map { UnsafeBufferPointer(start: $0, count: Int(count)) }
        }
    }

    /// Whether a host, in lower case, is in a subtree: it is the name of the subtree, or has labels before it. As OpenSSL
    /// reads it, one that begins with a dot has no name of its own, and an empty one contains all.
    private static func contains(_ subtree: UnsafeBufferPointer<UInt8>, _ host: [UInt8]) -> Bool {
        var base = subtree[...]
        // A name that ends in a dot is the same name.
        if base.last == UInt8(ascii: ".") { base = base.dropLast() }
        guard !base.isEmpty else { return true }
        guard host.count >= base.count else { return false }
        let rest = host.count - base.count
        guard zip(host[rest...], base).allSatisfy({ $0 == ((0x41...0x5A).contains($1) ? $1 | 0x20 : $1) }) else {
            return false
        }
        if base.first == UInt8(ascii: ".") { return rest > 0 }
        return rest == 0 || host[rest - 1] == UInt8(ascii: ".")
    }
}
