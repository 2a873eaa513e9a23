import ConvoySupport
import Foundation

/// A condition under which a server stores an object (RFC 9110, section 13.1). If it is not met, storing fails with
/// ``ObjectStorageError/Code/preconditionFailed``. Servers that do not support conditions ignore them.
public enum StoreCondition: Sendable, Hashable {
    /// No object exists under the key.
    case isMissing
    /// The object under the key has this entity tag, with or without its quotation marks.
    case hasEntityTag(String)

    /// The header field of the condition.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidMetadata`` if the entity tag cannot be sent.
    func field(_ key: String?) throws(ObjectStorageError) -> (name: String, value: String) {
        switch self {
        case .isMissing: return ("If-None-Match", "*")
        case .hasEntityTag(let tag):
            let plain = StoredObject.plain(tag)
            guard !plain.isEmpty, plain.utf8.allSatisfy({ 0x21...0x7E ~= $0 && $0 != UInt8(ascii: "\"") }) else {
                throw ObjectStorageError(.invalidMetadata, "Invalid entity tag \(tag.debugDescription).", key: key)
            }
            return ("If-Match", "\"\(plain)\"")
        }
    }
}
