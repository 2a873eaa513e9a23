import ConvoySupport
import Foundation

/// Lookup of an object's members by key.
///
/// Most objects are small, and a type requests only a few of their keys. The decoder therefore searches for a key in
/// the bytes of the text, from the start, so that the first of several equal keys is found. If this would take too
/// long, or if keys with different bytes may be equal, the decoder builds a dictionary.
extension JSONValueDecoder {
    /// Returns the position of a key's value; 0, the position of the document itself, if the key is missing.
    func position(of name: String) -> Int {
        if members == nil, comparedKeys <= 8 * Int(value.count) + 256,
            let position = name.utf8.withContiguousStorageIfAvailable(search), position >= 0
        {
            return position
        }
        return dictionary()[name] ?? 0
    }

    /// The keys of the object, without duplicates.
    var names: [String] { Array(dictionary().keys) }

    /// Calls a custom key strategy for all keys in document order, as `JSONDecoder` does for each container.
    func convertKeys() {
        guard case .custom(let convert) = index.options.keys else { return }
        let path = codingPath
        members = index.members(of: position) { convert(path + [JSONPathKey.name($0)]).stringValue }
    }

    private func dictionary() -> [String: Int] {
        if let members { return members }
        let isSnakeCase = index.options.convertsKeys
        let made = index.members(of: position) { isSnakeCase ? SnakeCase.converted($0) : $0 }
        members = made
        return made
    }

    /// Searches for a key by its bytes. Returns -1 if the keys must be compared as strings, because characters with
    /// different encodings can be equal, for example `K` and the Kelvin sign.
    private func search(_ name: UnsafeBufferPointer<UInt8>) -> Int {
        guard let bytes = name.baseAddress else { return -1 }
        let isSnakeCase = index.options.convertsKeys
        let fingerprint = JSONIndex.fingerprint(of: name)
        var position = position + 1
        for compared in 0..<Int(value.count) {
            let key = index[position]
            guard key.isSimple, key.isASCII else { return -1 }
            if isSnakeCase {
                guard let isEqual = SnakeCase.matches(index.text(of: key), name) else { return -1 }
                if isEqual { return found(position + 1, compared) }
            } else if key.next == fingerprint, Int(key.count) == name.count,
                memcmp(index.bytes + Int(key.start), bytes, name.count) == 0
            {
                return found(position + 1, compared)
            }
            position = Int(index[position + 1].next)
        }
        return name.allSatisfy { $0 < 0x80 } ? found(0, Int(value.count)) : -1
    }

    private func found(_ position: Int, _ compared: Int) -> Int {
        comparedKeys += compared
        return position
    }
}

extension JSONIndex {
    /// Calls a closure for each member of an object, with the key and the position of its value.
    func forEachMember(of object: Int, _ body: (String, Int) throws -> Void) rethrows {
        var position = object + 1
        for _ in 0..<self[object].count {
            if let name = string(self[position]) { try body(name, position + 1) }
            position = Int(self[position + 1].next)
        }
    }

    /// Returns the position of each member of an object. If several members have the same key, the first one is used.
    fileprivate func members(of object: Int, key convert: (String) -> String) -> [String: Int] {
        var members: [String: Int] = [:]
        members.reserveCapacity(Int(self[object].count))
        forEachMember(of: object) { name, position in
            let name = convert(name)
            if members[name] == nil { members[name] = position }
        }
        return members
    }
}

/// Keys for `JSONDecoder.KeyDecodingStrategy.convertFromSnakeCase`.
enum SnakeCase {
    /// Converts `first_name` to `firstName` as Foundation does: leading and trailing underscores are kept, and each
    /// word after the first is capitalized.
    static func converted(_ key: String) -> String {
        guard let first = key.firstIndex(where: { $0 != "_" }), let last = key.lastIndex(where: { $0 != "_" }) else {
            return key
        }
        let words = key[first...last].split(separator: "_")
        guard words.count > 1 else { return key }
        let name = words[0].lowercased() + words.dropFirst().map(\.capitalized).joined()
        return String(key[..<first]) + name + String(key[key.index(after: last)...])
    }

    /// Returns whether an ASCII key is converted to the given name; nil if only `converted(_:)` can determine this.
    static func matches(_ key: UnsafeBufferPointer<UInt8>, _ name: UnsafeBufferPointer<UInt8>) -> Bool? {
        guard key.count >= name.count, key.first.map(ASCII.lowercased) == name.first.map(ASCII.lowercased) else {
            return false
        }
        let underscore = UInt8(ascii: "_")
        guard let first = key.firstIndex(where: { $0 != underscore }),
            let last = key.lastIndex(where: { $0 != underscore }), key[first...last].contains(underscore)
        else { return key.elementsEqual(name) }
        guard name.count >= first + key.count - last - 1 else { return false }
        guard name[..<first].allSatisfy({ $0 == underscore }) else { return false }
        var rest = name[first...]
        var isFirstWord = true
        var previous = underscore
        for byte in key[first...last] {
            defer { previous = byte }
            if byte == underscore {
                isFirstWord = false
                continue
            }
            let lower = ASCII.lowercased(byte)
            let isLetter = UInt8(ascii: "a")...UInt8(ascii: "z") ~= lower
            guard isLetter || byte.isDigit || isFirstWord else { return nil }
            let beginsWord = !isFirstWord && isLetter && (previous == underscore || previous.isDigit)
            guard rest.popFirst() == (beginsWord ? lower - 0x20 : lower) else { return false }
        }
        return rest.elementsEqual(key[(last + 1)...])
    }
}
