import ConvoyRealtime
import ConvoySerialization
import ConvoyTestSupport
import Foundation

/// Parses a tree.
func json(_ text: String) throws -> JSON { try JSON(parsing: Data(text.utf8)) }

/// Parses a patch.
func patch(_ text: String) throws -> JSONPatch { try JSONPatch(parsing: Data(text.utf8)) }

/// Returns the error of applying a patch to a document, which must not change; nil if the patch applies.
func failure(of patch: JSONPatch, on document: JSON, limits: JSONPatch.Limits = .standard) -> JSONPatchError? {
    var changed = document
    do throws(JSONPatchError) {
        try patch.apply(to: &changed, limits: limits)
        return nil
    } catch {
        // The comparison includes the order of the members.
        return changed.description == document.description ? error : nil
    }
}

extension JSON {
    /// Creates a random tree with few keys and values, so that two trees have much in common.
    static func random(_ generator: inout SplitMix64, depth: Int = 0) -> JSON {
        let keys = ["a", "b", "a/b", "m~n", "", "é", "e\u{301}", "0", "-", "\u{1}\"\\", "😀"]
        switch Int.random(in: 0...(depth < 4 ? 12 : 6), using: &generator) {
        case 0: return .null
        case 1: return .bool(.random(using: &generator))
        case 2, 3:
            let texts = ["0", "-0", "1", "1.0", "10e-1", "0.10", "1e400", "123456789012345678901234567890", "7"]
            return JSONNumber(texts.randomElement(using: &generator) ?? "0").map(JSON.number) ?? .null
        case 4: return .string(keys.randomElement(using: &generator) ?? "")
        case 5: return .string(String(repeating: "text ", count: .random(in: 0...20, using: &generator)))
        case 6: return .array([])
        case 7...9:
            let count = Int.random(in: 0...8, using: &generator)
            return .array((0..<count).map { _ in .random(&generator, depth: depth + 1) })
        default:
            var object = JSONObject()
            for key in keys where Int.random(in: 0...2, using: &generator) == 0 {
                object[key] = .random(&generator, depth: depth + 1)
            }
            return .object(object)
        }
    }

    /// Returns the tree with some changes.
    func changed(_ generator: inout SplitMix64) -> JSON {
        if Int.random(in: 0...9, using: &generator) == 0 { return .random(&generator, depth: 2) }
        switch self {
        case .array(var elements):
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                switch Int.random(in: 0...3, using: &generator) {
                case 0:
                    elements.insert(.random(&generator, depth: 3), at: .random(in: 0...elements.count, using: &generator))
                case 1 where !elements.isEmpty: elements.remove(at: .random(in: elements.indices, using: &generator))
                case 2 where !elements.isEmpty:
                    let index = Int.random(in: elements.indices, using: &generator)
                    elements[index] = elements[index].changed(&generator)
                default: elements.shuffle(using: &generator)
                }
            }
            return .array(elements)
        case .object(var object):
            for member in object.members {
                switch Int.random(in: 0...5, using: &generator) {
                case 0: object[member.key] = nil
                case 1, 2: object[member.key] = member.value.changed(&generator)
                default: break
                }
            }
            return .object(object)
        default: return self
        }
    }

    /// Returns all locations in the tree.
    func pointers(_ path: JSONPointer = []) -> [JSONPointer] {
        switch self {
        case .array(let elements):
            [path] + elements.enumerated().flatMap { $1.pointers(path.appending(String($0))) }
        case .object(let object): [path] + object.members.flatMap { $0.value.pointers(path.appending($0.key)) }
        default: [path]
        }
    }
}
