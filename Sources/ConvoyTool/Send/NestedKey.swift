import Convoy
import ConvoyWorkflow

/// A key of an item such as `user[tags][]=x`, which names a place within a JSON body, as in HTTPie.
struct NestedKey {
    enum Part: Equatable {
        case key(String)
        case index(Int)
        /// `[]`: the end of a list.
        case end
    }

    let parts: [Part]

    /// Parses a key, or returns nil if its brackets do not match. A backslash before a bracket makes it a part of a name.
    init?(_ text: String) {
        var parts: [Part] = [], name = "", rest = Array(text)[...], isFirst = true
        while let next = rest.popFirst() {
            if next == "\\", let escaped = rest.first, "[]\\".contains(escaped) {
                name.append(rest.removeFirst())
                continue
            }
            guard next == "[" else {
                guard isFirst, next != "]" else { return nil }
                name.append(next)
                continue
            }
            if isFirst, !name.isEmpty { parts.append(.key(name)) }
            isFirst = false
            var inner = "", isEscaped = false, isClosed = false
            while let character = rest.popFirst() {
                if character == "\\", !rest.isEmpty {
                    // A number after a backslash is a name.
                    inner.append(rest.removeFirst())
                    isEscaped = true
                } else if character == "]" {
                    isClosed = true
                    break
                } else {
                    inner.append(character)
                }
            }
            guard isClosed else { return nil }
            if inner.isEmpty {
                parts.append(.end)
            } else if !isEscaped, let index = Int(inner) {
                guard (0...9999).contains(index) else { return nil }
                parts.append(.index(index))
            } else {
                parts.append(.key(inner))
            }
        }
        if isFirst { parts = [.key(name)] }
        guard parts.count <= 32 else { return nil }
        self.parts = parts
    }

    /// Sets the value at the place in a body.
    ///
    /// - Returns: The body, or nil if the place is within a value of another type.
    func setting(_ value: JSON, in body: JSON?) -> JSON? { Self.setting(value, at: parts[...], in: body) }

    private static func setting(_ value: JSON, at parts: ArraySlice<Part>, in body: JSON?) -> JSON? {
        guard let part = parts.first else { return value }
        let rest = parts.dropFirst()
        switch (part, body) {
        case (.key(let key), nil):
            var object = JSONObject()
            object[key] = setting(value, at: rest, in: nil)
            return .object(object)
        case (.key(let key), .object(var object)?):
            guard let inner = setting(value, at: rest, in: object[key]) else { return nil }
            object[key] = inner
            return .object(object)
        case (.end, nil), (.index, nil): return setting(value, at: parts, in: .array([]))
        case (.end, .array(let values)?):
            return setting(value, at: rest, in: nil).map { .array(values + [$0]) }
        case (.index(let index), .array(var values)?):
            while values.count <= index { values.append(.null) }
            // A plain nil would be JSON's null.
            let known = values[index] == .null ? Optional<JSON>.none : values[index]
            guard let inner = setting(value, at: rest, in: known) else { return nil }
            values[index] = inner
            return .array(values)
        default: return nil
        }
    }
}
