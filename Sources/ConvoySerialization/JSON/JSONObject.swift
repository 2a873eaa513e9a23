/// The members of a JSON object, in the order written, with unique keys.
///
/// Keys are compared by code points (RFC 6901, section 4). Two objects are equal if they have the same members in any
/// order.
public struct JSONObject: Sendable {
    /// A key and its value.
    public struct Member: Sendable {
        /// The key.
        public let key: String
        /// The value.
        public let value: JSON

        /// A key and its value.
        public init(key: String, value: JSON) {
            self.key = key
            self.value = value
        }
    }

    /// The members in order.
    public private(set) var members: [Member] = []
    private var places: [CodePoints: Int] = [:]

    /// An object without members.
    public init() {}

    /// Adds a member after the others. Returns false, and changes nothing, if the key exists already.
    @discardableResult
    public mutating func append(key: String, value: JSON) -> Bool {
        guard self[key] == nil else { return false }
        places[CodePoints(text: key)] = members.count
        members.append(Member(key: key, value: value))
        return true
    }

    /// The value of a key.
    public subscript(key: String) -> JSON? { places[CodePoints(text: key)].map { members[$0].value } }

    /// A string that is compared by its code points, unlike `String`.
    private struct CodePoints: Hashable {
        let text: String

        static func == (one: Self, other: Self) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }
    }
}

extension JSONObject: Hashable {
    public static func == (one: JSONObject, other: JSONObject) -> Bool {
        one.members.count == other.members.count && one.members.allSatisfy { other[$0.key] == $0.value }
    }

    public func hash(into hasher: inout Hasher) {
        // Independent of the order.
        hasher.combine(
            members.reduce(0) { sum, member in
                var hasher = Hasher()
                hasher.combine(member.key)
                hasher.combine(member.value)
                return sum ^ hasher.finalize()
            })
    }
}
