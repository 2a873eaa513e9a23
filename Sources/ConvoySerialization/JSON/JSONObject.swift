/// The members of a JSON object, in their original order, with unique keys.
///
/// Keys are compared by code points (RFC 6901, section 4). Two objects are equal if they have the same members,
/// regardless of order.
public struct JSONObject: Sendable {
    /// A key and its value.
    public struct Member: Sendable {
        /// The name of the member.
        public let key: String
        /// The value of the member.
        public package(set) var value: JSON
        /// A number that increases from one member to the next. Unlike a position, it does not change when other
        /// members are removed.
        fileprivate var order = 0

        /// Creates a member from a key and its value.
        public init(key: String, value: JSON) {
            self.key = key
            self.value = value
        }
    }

    /// The members, in order.
    public private(set) var members: [Member] = []
    /// The `order` of each member by its key. The dictionary is empty if the object has few members, because searching
    /// the members of a small object is faster.
    private var orders: [CodePoints: Int] = [:]

    private static let fewMembers = 12

    /// Creates an empty object.
    public init() {}

    /// The value of a key. Setting the value of a new key appends a member; setting nil removes the member.
    public subscript(key: String) -> JSON? {
        get { position(of: key).map { members[$0].value } }
        set {
            switch (position(of: key), newValue) {
            case (let position?, let value?): members[position].value = value
            case (let position?, nil): remove(at: position)
            case (nil, let value?): append(Member(key: key, value: value))
            case (nil, nil): break
            }
        }
    }

    /// Appends a member. Returns false, without any change, if the key already exists.
    @discardableResult
    public mutating func append(key: String, value: JSON) -> Bool {
        guard position(of: key) == nil else { return false }
        append(Member(key: key, value: value))
        return true
    }

    /// Removes a member and returns its value; nil if the key is missing.
    @discardableResult
    public mutating func removeValue(forKey key: String) -> JSON? {
        position(of: key).map { remove(at: $0).value }
    }

    private mutating func append(_ member: Member) {
        var member = member
        member.order = (members.last?.order ?? -1) + 1
        members.append(member)
        if !orders.isEmpty {
            orders[CodePoints(text: member.key)] = member.order
        } else if members.count > Self.fewMembers {
            for member in members { orders[CodePoints(text: member.key)] = member.order }
        }
    }
}

/// Access to members by position.
extension JSONObject {
    /// Returns the position of the member with a key; nil if the key is missing.
    package func position(of key: String) -> Int? {
        if orders.isEmpty { return members.firstIndex { $0.key.hasSameCodePoints(as: key) } }
        guard let order = orders[CodePoints(text: key)] else { return nil }
        if members.indices.contains(order), members[order].order == order { return order }
        var (low, high) = (0, members.count)
        while low < high {
            let middle = (low + high) / 2
            if members[middle].order < order { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Removes the member at a position.
    @discardableResult
    package mutating func remove(at position: Int) -> Member {
        let member = members.remove(at: position)
        if !orders.isEmpty { orders[CodePoints(text: member.key)] = nil }
        return member
    }

    /// Inserts a removed member at its previous position.
    package mutating func insert(_ member: Member, at position: Int) {
        guard position < members.count else { return append(member) }
        let isBetween =
            member.order < members[position].order && (position == 0 || members[position - 1].order < member.order)
        members.insert(member, at: position)
        if !orders.isEmpty { orders[CodePoints(text: member.key)] = member.order }
        if !isBetween { renumber() }
    }

    private mutating func renumber() {
        for index in members.indices {
            members[index].order = index
            if !orders.isEmpty { orders[CodePoints(text: members[index].key)] = index }
        }
    }

    /// Modifies the value at a position in place.
    package mutating func withValue<Result, Failure: Error>(
        at position: Int, _ change: (inout JSON) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try change(&members[position].value)
    }
}

extension JSONObject: Hashable {
    public static func == (one: JSONObject, other: JSONObject) -> Bool {
        guard one.members.count == other.members.count else { return false }
        for (index, member) in one.members.enumerated() {
            // Fast path: most objects have their members in the same order.
            let same = other.members[index]
            if same.key.hasSameCodePoints(as: member.key) {
                if same.value != member.value { return false }
            } else if other[member.key] != member.value {
                return false
            }
        }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        // The hash must not depend on the order.
        hasher.combine(
            members.reduce(0) { sum, member in
                var hasher = Hasher()
                hasher.combine(CodePoints(text: member.key))
                hasher.combine(member.value)
                return sum ^ hasher.finalize()
            })
    }

    /// A string that, unlike `String`, is compared by its code points.
    private struct CodePoints: Hashable {
        let text: String

        static func == (one: Self, other: Self) -> Bool { one.text.hasSameCodePoints(as: other.text) }

        func hash(into hasher: inout Hasher) { text.hashCodePoints(into: &hasher) }
    }
}

extension String {
    /// Returns whether both strings have the same code points. `==` treats canonically equivalent strings as equal, for
    /// example a precomposed letter and a letter with a combining accent.
    package func hasSameCodePoints(as other: String) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }

    /// Hashes the code points, so that canonically equivalent strings have different hashes.
    package func hashCodePoints(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }
}
