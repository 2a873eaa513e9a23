import ConvoySerialization

extension JSONPatch {
    /// One change, or a condition for the others (RFC 6902, section 4). The counterpart of `AFJSONPatchOperation`.
    public enum Operation: Sendable, Hashable {
        /// Adds a member to an object, or replaces it; inserts an element into an array before the one at the index, or
        /// after the last with the token `-`. The object or array must exist. With the pointer to the root the document
        /// is replaced.
        case add(path: JSONPointer, value: JSON)
        /// Removes a value, which must exist. The root cannot be removed: no JSON would remain. (`null` can take its
        /// place, by ``replace(path:value:)``.)
        case remove(path: JSONPointer)
        /// Replaces a value, which must exist.
        case replace(path: JSONPointer, value: JSON)
        /// Removes a value, and adds it elsewhere, which may not be inside itself. A value that is moved to where it is
        /// stays.
        case move(from: JSONPointer, path: JSONPointer)
        /// Adds a copy of a value elsewhere.
        case copy(from: JSONPointer, path: JSONPointer)
        /// Requires a value to be equal to this one: numbers by value, text by code points, members in any order.
        case test(path: JSONPointer, value: JSON)

        /// Where the operation changes something, or tests it.
        public var path: JSONPointer {
            switch self {
            case .add(let path, _), .remove(let path), .replace(let path, _), .test(let path, _), .move(_, let path),
                .copy(_, let path):
                path
            }
        }

        /// The name of the operation, as in the member `op`.
        public var name: String {
            switch self {
            case .add: "add"
            case .remove: "remove"
            case .replace: "replace"
            case .move: "move"
            case .copy: "copy"
            case .test: "test"
            }
        }

        /// The operation as JSON.
        public var json: JSON {
            var object = JSONObject()
            object.append(key: "op", value: .string(name))
            switch self {
            case .move(let from, let path), .copy(let from, let path):
                object.append(key: "from", value: .string(from.description))
                object.append(key: "path", value: .string(path.description))
            case .remove(let path): object.append(key: "path", value: .string(path.description))
            case .add(let path, let value), .replace(let path, let value), .test(let path, let value):
                object.append(key: "path", value: .string(path.description))
                object.append(key: "value", value: value)
            }
            return .object(object)
        }
    }
}

extension JSONPatch.Operation {
    init(_ json: JSON) throws(JSONPatchProblem) {
        guard case .object(let object) = json else { throw JSONPatchProblem(.notAnObject) }
        guard let op = object["op"] else { throw JSONPatchProblem(.missingMember("op")) }
        guard case .string(let name) = op else { throw JSONPatchProblem(.notAString("op")) }
        func pointer(_ key: String) throws(JSONPatchProblem) -> JSONPointer {
            guard let value = object[key] else { throw JSONPatchProblem(.missingMember(key), name: name) }
            guard case .string(let text) = value else { throw JSONPatchProblem(.notAString(key), name: name) }
            guard let pointer = JSONPointer(text) else { throw JSONPatchProblem(.invalidPointer, text, name: name) }
            return pointer
        }
        func value(_ path: JSONPointer) throws(JSONPatchProblem) -> JSON {
            guard let value = object["value"] else {
                throw JSONPatchProblem(.missingMember("value"), path.description, name: name)
            }
            return value
        }
        switch name {
        case "add":
            let path = try pointer("path")
            self = .add(path: path, value: try value(path))
        case "remove": self = .remove(path: try pointer("path"))
        case "replace":
            let path = try pointer("path")
            self = .replace(path: path, value: try value(path))
        case "move": self = .move(from: try pointer("from"), path: try pointer("path"))
        case "copy": self = .copy(from: try pointer("from"), path: try pointer("path"))
        case "test":
            let path = try pointer("path")
            self = .test(path: path, value: try value(path))
        default: throw JSONPatchProblem(.unknownOperation, name: name)
        }
    }
}
