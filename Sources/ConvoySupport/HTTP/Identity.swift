import Foundation

/// The identity under which a request is sent: its credentials and cookies, or the name that the program sets instead
/// of them; the client's certificate; and the security policy that evaluates the server.
///
/// This type alone decides which resources requests may share. A digest of the identity selects the partition of a
/// cache, and only requests with equal identities share a transfer in flight. Connections depend only on the name, the
/// client's certificate and the policy.
package struct Identity: Sendable, Hashable {
    /// The destination of a request that is not sent to the URL's host.
    package enum Place: Sendable {
        case socket(String)
        case address(String)
    }

    /// The encoded parts, each with its kind and length, so that different lists of parts never produce the same bytes.
    private(set) package var bytes: [UInt8] = []

    /// Whether the request is anonymous and uses the default policy.
    package var isEmpty: Bool { bytes.isEmpty }

    /// - Parameters:
    ///   - name: The name that the program sets. It replaces the credentials and cookies, so that renewing a token does
    ///     not change the identity.
    ///   - credential: The credential sent with the request.
    ///   - secrets: The request's own secret header fields.
    ///   - cookieStore: The identifier of the shared cookie store; nil if the request uses no store or a private one.
    ///   - certificate: The identifier of the client's certificate; nil if no certificate is presented.
    ///   - policy: The identifier of the host's security policy; nil for the default policy.
    ///   - host: The value of `Host`, if it differs from the URL's host.
    ///   - place: The destination, if it differs from the URL's host.
    package init(
        name: ExactString? = nil, credential: (user: String, password: String)? = nil,
        secrets: [(name: String, value: String)] = [], cookieStore: String? = nil, certificate: String? = nil,
        policy: String? = nil, host: String? = nil, place: Place? = nil
    ) {
        if let name {
            add("name", name.text)
        } else {
            if let credential { add("credential", credential.user, credential.password) }
            let fields = secrets.map { (name: [UInt8]($0.name.lowercased().utf8), value: [UInt8]($0.value.utf8)) }
            for field in fields.sorted(by: { one, other in
                let (first, second) = (one.name + [0] + one.value, other.name + [0] + other.value)
                return first.lexicographicallyPrecedes(second)
            }) {
                add("field", field.name, field.value)
            }
            if let cookieStore { add("cookies", cookieStore) }
        }
        if let certificate { add("certificate", certificate) }
        if let policy { add("policy", policy) }
        // Convert ASCII letters only: Unicode lowercases the Kelvin sign to `k`, but servers distinguish the two.
        if let host { add("host", [host.utf8.map(ASCII.lowercased)]) }
        switch place {
        case .socket(let path): add("socket", path)
        case .address(let address): add("address", address)
        case nil: break
        }
    }

    private mutating func add(_ kind: String, _ texts: String...) {
        add(kind, texts.map { Array($0.utf8) })
    }

    private mutating func add(_ kind: String, _ name: [UInt8], _ value: [UInt8]) { add(kind, [name, value]) }

    private mutating func add(_ kind: String, _ texts: [[UInt8]]) {
        for text in [Array(kind.utf8)] + texts {
            bytes += "\(text.count):".utf8
            bytes += text
        }
    }
}

/// A string that is compared by its bytes.
///
/// `==` of `String` uses Unicode equivalence: a precomposed letter equals the letter followed by a combining accent. To
/// a server, these are two different users or keys.
package struct ExactString: Sendable, Hashable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (one: Self, other: Self) -> Bool { one.text.isExactly(other.text) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension String {
    /// Returns whether both strings have the same bytes.
    package func isExactly(_ other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isEqual = utf8.withContiguousStorageIfAvailable { one in
            other.utf8.withContiguousStorageIfAvailable { other in
                guard let left = one.baseAddress, let right = other.baseAddress else { return true }
                return memcmp(left, right, one.count) == 0
            }
        }
        if case .some(.some(let isEqual)) = isEqual { return isEqual }
        return utf8.elementsEqual(other.utf8)
    }
}
