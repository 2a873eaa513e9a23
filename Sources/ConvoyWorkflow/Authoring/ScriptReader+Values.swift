import ConvoySerialization
import Foundation

/// The values in a script.
extension ScriptReader {
    mutating func expect(_ mark: String) throws(Failure) {
        guard tokens.popFirst() == .mark(mark) else { throw Failure() }
    }

    mutating func takes(_ mark: String) -> Bool {
        guard tokens.first == .mark(mark) else { return false }
        tokens.removeFirst()
        return true
    }

    mutating func value() throws(Failure) -> ScriptValue {
        depth += 1
        defer { depth -= 1 }
        guard depth < 50 else { throw Failure() }
        switch tokens.first {
        case .text(let text)?:
            tokens.removeFirst()
            return .constant(.string(text))
        case .number(let text)?:
            tokens.removeFirst()
            guard let number = JSONNumber(text) else { throw Failure() }
            return .constant(.number(number))
        case .mark("-")?:
            tokens.removeFirst()
            guard case .number(let text)? = tokens.popFirst(), let number = JSONNumber("-\(text)") else { throw Failure() }
            return .constant(.number(number))
        case .mark("[")?:
            tokens.removeFirst()
            var values: [JSON] = []
            while !takes("]") {
                if !values.isEmpty { try expect(",") }
                guard case .constant(let json) = try value() else { throw Failure() }
                values.append(json)
            }
            return .constant(.array(values))
        case .mark("{")?:
            tokens.removeFirst()
            var object = JSONObject()
            while !takes("}") {
                if !object.members.isEmpty { try expect(",") }
                let key: String
                switch tokens.popFirst() {
                case .name(let name)?: key = name
                case .text(let text)?: key = text
                default: throw Failure()
                }
                try expect(":")
                guard case .constant(let json) = try value(), object.append(key: key, value: json) else { throw Failure() }
            }
            return .constant(.object(object))
        case .name("true")?, .name("false")?, .name("null")?:
            let text = tokens.removeFirst().source
            return .constant(text == "null" ? .null : .bool(text == "true"))
        case .name(let name)?:
            tokens.removeFirst()
            guard var value = ScriptValue(root: name) ?? aliases[name] else { throw Failure() }
            while let next = try member(of: value) { value = next }
            return value
        default: throw Failure()
        }
    }

    /// Returns the member of a value that follows, or nil if none does.
    mutating func member(of value: ScriptValue) throws(Failure) -> ScriptValue? {
        switch tokens.first {
        case .mark("[")?:
            tokens.removeFirst()
            let key: JSON
            switch tokens.popFirst() {
            case .text(let text)?: key = .string(text)
            case .number(let text)?:
                guard let number = JSONNumber(text) else { throw Failure() }
                key = .number(number)
            default: throw Failure()
            }
            try expect("]")
            guard let found = value.member(key) else { throw Failure() }
            return found
        case .mark(".")?:
            // The words of an expectation follow a closing parenthesis.
            guard case .name(let name)? = tokens.dropFirst().first else { throw Failure() }
            tokens = tokens.dropFirst(2)
            guard takes("(") else {
                guard let found = value.member(.string(name)) else { throw Failure() }
                return found
            }
            var arguments: [ScriptValue] = []
            while !takes(")") {
                if !arguments.isEmpty { try expect(",") }
                arguments.append(try self.value())
            }
            guard let found = value.call(name, arguments) else { throw Failure() }
            return found
        default: return nil
        }
    }

    /// Returns the expression for a value.
    mutating func expression(_ value: ScriptValue) throws(Failure) -> String {
        if case .variable(let name) = value {
            guard let found = variables.expression(name) else { throw Failure() }
            return "${\(found)}"
        }
        guard let text = value.expression else { throw Failure() }
        return text
    }

    /// Returns a constant for a comparison with a value.
    func constant(_ constant: ScriptValue, for value: ScriptValue?) throws(Failure) -> String {
        guard case .constant(let json) = constant else {
            guard let text = constant.expression else { throw Failure() }
            return text
        }
        // Scripts count milliseconds.
        if case .duration? = value, case .number(let number) = json, let milliseconds = number.double,
            let seconds = JSONNumber(milliseconds / 1000)
        {
            return seconds.text
        }
        return ScriptValue.text(of: json)
    }
}
