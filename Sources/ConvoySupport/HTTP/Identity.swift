import Foundation

/// What a request acts as: what it says of who sends it, or in place of that the name that the program has given; and whom
/// it trusts to answer.
///
/// One value decides with whom a request may share anything, so that no place can forget a part of it: the partition of a
/// cache is its digest, and transfers in flight are shared only where it is equal. Connections are told apart by what of it
/// concerns them: the name, the client's certificate and the policy.
package struct Identity: Sendable, Hashable {
    /// Where a request is sent in place of the URL's host.
    package enum Place: Sendable {
        case socket(String)
        case address(String)
    }

    /// The parts with their kinds and lengths, so that no two lists of parts make the same bytes.
    private(set) package var bytes: [UInt8] = []

    /// Whether it is that of a request that says nothing of who sends it, under the policy that all have.
    package var isEmpty: Bool { bytes.isEmpty }

    /// - Parameters:
    ///   - name: given by the program. It stands in place of all that a request says of who sends it: so a token that is
    ///     exchanged for another makes no other identity.
    ///   - credential: for whom the request speaks.
    ///   - secrets: the request's own fields that are secrets.
    ///   - cookieStore: whose cookies it has; nil where it has none, or its own.
    ///   - certificate: what tells the client's certificate from others, if one is presented.
    ///   - policy: what tells the policy that counts for the host from others; nil for the default one.
    ///   - host: what the request names as its host, in place of the URL's.
    ///   - place: where it goes, in place of the URL's host.
    package init(
        name: ExactString? = nil, credential: (user: String, password: String)? = nil,
        secrets: [(name: String, value: String)] = [], cookieStore: String? = nil, certificate: String? = nil,
        policy: String? = nil, host: String? = nil, place: Place? = nil
    ) {
        if let name {
            add("name", name.text)
        } else {
            if let credential { add("credential", credential.user, credential.password) }
            for (name, value) in secrets.map({ ([UInt8]($0.name.lowercased().utf8), [UInt8]($0.value.utf8)) })
                .sorted(by: { ($0.0 + [0] + $0.1).lexicographicallyPrecedes($1.0 + [0] + $1.1) })
            {
                add("field", name, value)
            }
            if let cookieStore { add("cookies", cookieStore) }
        }
        if let certificate { add("certificate", certificate) }
        if let policy { add("policy", policy) }
        // Letters of ASCII only: the Kelvin sign in lower case is a `k`, but no server takes it for one.
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

/// A text that equals only one with the same bytes.
///
/// `==` of `String` takes texts for equal that Unicode takes for equal, such as a letter with an accent in one character
/// and in two. To a server they are two users, and two keys.
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
    /// Whether another text has the same bytes.
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
