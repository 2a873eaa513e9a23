import Foundation

/// A base URL to which most relative references can simply be appended. This type is a class, because every reference
/// stores its base.
package final class SimpleURLBase: Sendable {
    /// The directory of the base URL. Its text ends in a slash.
    package let address: HTTPAddress
    /// The end of the authority in the text.
    fileprivate let originEnd: Int
    fileprivate let hasEscapes: Bool

    /// - Returns: nil if the URL is not sent exactly as written, or has a query, a fragment, dot segments or a name
    ///   after its last slash. Such URLs are resolved for each reference.
    package init?(_ base: URL) {
        guard base.query == nil, base.fragment == nil, var address = HTTPAddress(base.absoluteString),
            address.text == base.absoluteString
        else { return nil }
        let path = address.afterAuthority.utf8.count
        originEnd = address.text.utf8.count - path
        hasEscapes = address.text.utf8.contains(UInt8(ascii: "%"))
        if path == 0 { address = HTTPAddress(target: address.target, text: address.text + "/") }
        guard address.text.utf8.last == UInt8(ascii: "/"), SimpleURLReference.isPlainPath(address.afterAuthority) else {
            return nil
        }
        self.address = address
    }
}

/// A reference that, like most, needs neither resolution nor encoding. Its target is found in a single pass over the
/// text, which is sent unchanged. `URLReference` handles all other references, and would return the same result for the
/// simple ones.
package struct SimpleURLReference {
    private enum Form {
        case absolute
        /// An absolute path on the base's authority.
        case path
        /// A relative path to append to the base.
        case relative
    }

    private let text: String
    private let base: SimpleURLBase?
    private let form: Form
    private let hasQuery: Bool
    /// Whether all parsers find the same path and query in the text. The text must not contain a zone, an escape in the
    /// path (which could encode a dot), or an empty query (which some versions of libcurl omit).
    package let isSentAsWritten: Bool
    /// Whether the reference consists of an authority without a path.
    private let lacksPath: Bool
    package let target: Target
    /// Whether the reference has the same target as the base.
    package let leadsToBase: Bool

    /// - Returns: nil for a reference that must be parsed. Such a reference is relative without a base; begins with
    ///   `//`, `?` or another scheme; contains a fragment, dot segments or characters to encode; or has an authority
    ///   that is not normalized.
    package init?(_ reference: String, under base: SimpleURLBase?) {
        var text = reference
        let found = text.withUTF8 { bytes -> (form: Form, start: Int, isOfBase: Bool, scan: Scan)? in
            if let base, base.isOrigin(of: bytes) {
                return Scan(bytes, from: base.originEnd).map { (.absolute, base.originEnd, true, $0) }
            }
            if let authority = SimpleURLAuthority(bytes) {
                return Scan(bytes, from: authority.end).map { (.absolute, authority.end, false, $0) }
            }
            guard base != nil else { return nil }
            if bytes.first == UInt8(ascii: "/") {
                guard bytes.count < 2 || bytes[1] != UInt8(ascii: "/") else { return nil }
                return Scan(bytes, from: 0).map { (.path, 0, true, $0) }
            }
            // A colon in the first segment terminates a scheme.
            guard bytes.first != UInt8(ascii: "?"),
                bytes.first(where: { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") })
                    != UInt8(ascii: ":")
            else { return nil }
            return Scan(bytes, from: 0).map { (.relative, 0, true, $0) }
        }
        guard let found else { return nil }
        if found.isOfBase, let base {
            target = base.address.target
            leadsToBase = true
        } else {
            guard let target = Target(text) else { return nil }
            self.target = target
            leadsToBase = target == base?.address.target
        }
        self.text = text
        self.base = base
        form = found.form
        hasQuery = found.scan.hasQuery
        let isBaseEscaped = found.form == .relative && base?.hasEscapes == true
        isSentAsWritten = !found.scan.hasEscapes && !found.scan.hasEmptyQuery && !isBaseEscaped && target.zone == nil
        lacksPath = found.form == .absolute && found.start == text.utf8.count
    }

    /// Returns the address of the URL with a query appended, or nil if the query would have to follow a new slash.
    ///
    /// - Parameter query: The encoded query; may be empty.
    package func address(appending query: String) -> HTTPAddress? {
        if query.isEmpty, form == .absolute { return HTTPAddress(target: target, text: text) }
        guard query.isEmpty || !lacksPath else { return nil }
        var prefix = form == .absolute ? "" : base?.address.text ?? ""
        let prefixLength = form == .path ? base?.originEnd ?? 0 : prefix.utf8.count
        var (reference, query) = (text, query)
        let joint = jointBefore(query)
        let capacity = prefixLength + reference.utf8.count + 1 + query.utf8.count
        let whole = String(unsafeUninitializedCapacity: capacity) { buffer in
            var end = prefix.withUTF8 { Self.append($0[..<prefixLength], to: buffer, at: 0) }
            end = reference.withUTF8 { Self.append($0[...], to: buffer, at: end) }
            if let joint {
                buffer[end] = joint
                end += 1
            }
            return query.withUTF8 { Self.append($0[...], to: buffer, at: end) }
        }
        return HTTPAddress(target: target, text: whole)
    }

    private func jointBefore(_ query: String) -> UInt8? {
        if query.isEmpty { return nil }
        guard hasQuery else { return UInt8(ascii: "?") }
        let last = text.utf8.last
        return last == UInt8(ascii: "?") || last == UInt8(ascii: "&") ? nil : UInt8(ascii: "&")
    }

    private static func append(
        _ bytes: Slice<UnsafeBufferPointer<UInt8>>, to buffer: UnsafeMutableBufferPointer<UInt8>, at start: Int
    ) -> Int {
        buffer[start...].update(fromContentsOf: bytes)
    }

    fileprivate static func isPlainPath(_ path: Substring) -> Bool {
        var path = path
        return path.withUTF8 { Scan($0, from: 0)?.hasQuery == false }
    }

    /// The result of scanning a path and a query that consist of allowed characters.
    private struct Scan {
        let hasQuery: Bool
        /// Whether the path has percent-encoded bytes.
        let hasEscapes: Bool
        /// Whether the text contains a `?` that is followed by an empty query.
        let hasEmptyQuery: Bool

        /// - Returns: nil if the text contains a byte that must be encoded, a dot segment, or a fragment.
        init?(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) {
            var index = start
            let allowed = ByteSet.path
            var segment = start
            var hasEscapes = false
            while index < bytes.count, bytes[index] != UInt8(ascii: "?") {
                if bytes[index] == UInt8(ascii: "/") {
                    if Self.isDots(bytes, segment..<index) { return nil }
                    segment = index + 1
                }
                guard let next = Self.next(bytes, index, allowed) else { return nil }
                if next > index + 1 { hasEscapes = true }
                index = next
            }
            self.hasEscapes = hasEscapes
            if Self.isDots(bytes, segment..<index) { return nil }
            hasQuery = index < bytes.count
            hasEmptyQuery = index == bytes.count - 1
            let allowedInQuery = ByteSet.query
            while index < bytes.count {
                guard let next = Self.next(bytes, index, allowedInQuery) else { return nil }
                index = next
            }
        }

        /// Returns the index after an allowed character or a valid escape, or nil for other characters.
        private static func next(_ bytes: UnsafeBufferPointer<UInt8>, _ index: Int, _ allowed: ByteSet) -> Int? {
            if allowed.contains(bytes[index]) { return index + 1 }
            guard bytes[index] == UInt8(ascii: "%"), bytes.count - index > 2,
                ASCII.hexadecimalValue(bytes[index + 1]) != nil, ASCII.hexadecimalValue(bytes[index + 2]) != nil
            else { return nil }
            return index + 3
        }

        private static func isDots(_ bytes: UnsafeBufferPointer<UInt8>, _ segment: Range<Int>) -> Bool {
            guard segment.count == 1 || segment.count == 2 else { return false }
            return bytes[segment.lowerBound] == UInt8(ascii: ".") && bytes[segment.upperBound - 1] == UInt8(ascii: ".")
        }
    }
}

extension SimpleURLBase {
    /// Returns whether a reference begins with the base's scheme and authority, followed by a path or the end.
    fileprivate func isOrigin(of reference: UnsafeBufferPointer<UInt8>) -> Bool {
        guard reference.count >= originEnd, reference.count == originEnd || reference[originEnd] == UInt8(ascii: "/") else {
            return false
        }
        var text = address.text
        return text.withUTF8 { base in
            guard let one = base.baseAddress, let other = reference.baseAddress else { return false }
            return memcmp(one, other, originEnd) == 0
        }
    }
}
