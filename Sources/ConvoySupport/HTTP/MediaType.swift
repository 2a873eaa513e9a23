/// Media types of header fields (RFC 9110, section 8.3.1).
package enum MediaType {
    /// Whether the value of a `Content-Type` has this type, whatever its parameters are. The case does not matter.
    package static func of(_ value: String?, is type: String) -> Bool {
        guard let essence = value?.utf8.prefix(while: { $0 != UInt8(ascii: ";") }) else { return false }
        return ASCII.equalIgnoringCase(ASCII.trimmed(essence), type.utf8)
    }
}
