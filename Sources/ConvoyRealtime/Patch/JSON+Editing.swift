import ConvoySerialization

/// In-place changes to a tree. A container is moved out of the tree while its content changes, so that only shared
/// values are copied.
extension JSON {
    /// Changes the value at a path.
    mutating func edit<Result>(
        at path: ArraySlice<String>, _ change: (inout JSON) throws(JSONPatchError.Reason) -> Result
    ) throws(JSONPatchError.Reason) -> Result {
        guard let token = path.first else { return try change(&self) }
        if var elements = takeElements() {
            defer { self = .array(elements) }
            let index = try Self.index(token, in: elements)
            return try elements[index].edit(at: path.dropFirst(), change)
        }
        if var object = takeObject() {
            defer { self = .object(object) }
            guard let position = object.position(of: token) else { throw .notFound }
            return try object.withValue(at: position) { (value: inout JSON) throws(JSONPatchError.Reason) -> Result in
                try value.edit(at: path.dropFirst(), change)
            }
        }
        throw .notAContainer
    }

    /// Returns the member or element that a pointer's token selects.
    func child(_ token: String) throws(JSONPatchError.Reason) -> JSON {
        switch self {
        case .array(let elements): return elements[try Self.index(token, in: elements)]
        case .object(let object):
            guard let value = object[token] else { throw .notFound }
            return value
        default: throw .notAContainer
        }
    }

    /// The position of a child, for undoing a change.
    enum Place {
        case element(Int)
        /// A member, without its value.
        case member(JSONObject.Member, position: Int)
    }

    /// The effect of adding a value.
    enum Effect {
        case inserted(Place)
        case replaced(JSON)
    }

    /// Removes a child.
    mutating func take(_ token: String) throws(JSONPatchError.Reason) -> (value: JSON, place: Place) {
        if var elements = takeElements() {
            defer { self = .array(elements) }
            let index = try Self.index(token, in: elements)
            return (elements.remove(at: index), .element(index))
        }
        if var object = takeObject() {
            defer { self = .object(object) }
            guard let position = object.position(of: token) else { throw .notFound }
            var member = object.remove(at: position)
            return (member.value.exchange(for: .null), .member(member, position: position))
        }
        throw .notAContainer
    }

    /// Adds a child, like the operation `add`.
    mutating func put(_ value: JSON, _ token: String) throws(JSONPatchError.Reason) -> Effect {
        if var elements = takeElements() {
            defer { self = .array(elements) }
            guard let index = token == "-" ? elements.count : JSONPointer.index(token) else { throw .invalidIndex }
            guard index <= elements.count else { throw .indexOutOfBounds(count: elements.count) }
            elements.insert(value, at: index)
            return .inserted(.element(index))
        }
        if var object = takeObject() {
            defer { self = .object(object) }
            if let position = object.position(of: token) {
                return .replaced(object.withValue(at: position) { $0.exchange(for: value) })
            }
            object.append(key: token, value: value)
            return .inserted(.member(JSONObject.Member(key: token, value: .null), position: object.members.count - 1))
        }
        throw .notAContainer
    }

    /// Restores a child that was removed from this location.
    mutating func restore(_ value: JSON, at place: Place) {
        switch place {
        case .element(let index):
            guard var elements = takeElements() else { return }
            elements.insert(value, at: index)
            self = .array(elements)
        case .member(var member, let position):
            guard var object = takeObject() else { return }
            member.value = value
            object.insert(member, at: position)
            self = .object(object)
        }
    }

    /// Undoes the addition of a child at a location.
    mutating func takeBack(from place: Place) -> JSON? {
        switch place {
        case .element(let index):
            guard var elements = takeElements() else { return nil }
            defer { self = .array(elements) }
            return elements.remove(at: index)
        case .member(_, let position):
            guard var object = takeObject() else { return nil }
            defer { self = .object(object) }
            return object.remove(at: position).value
        }
    }

    /// Sets the value, and returns the old one.
    mutating func exchange(for value: JSON) -> JSON {
        let old = self
        self = value
        return old
    }

    /// Moves the elements out of an array; nil for other values. This is a separate function, because the pattern of a
    /// `switch` would hold a copy.
    private mutating func takeElements() -> [JSON]? {
        guard case .array(let elements) = self else { return nil }
        self = .null
        return elements
    }

    /// Moves the members out of an object; nil for other values.
    mutating func takeObject() -> JSONObject? {
        guard case .object(let object) = self else { return nil }
        self = .null
        return object
    }

    private static func index(_ token: String, in elements: [JSON]) throws(JSONPatchError.Reason) -> Int {
        if token == "-" { throw .indexOutOfBounds(count: elements.count) }
        guard let index = JSONPointer.index(token) else { throw .invalidIndex }
        guard index < elements.count else { throw .indexOutOfBounds(count: elements.count) }
        return index
    }
}
