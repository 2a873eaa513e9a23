import Foundation

/// Makes a URL from a reference as servers and people write it: absolute or relative, and possibly with characters that
/// are not allowed in a URL (RFC 3986, sections 4.1 and 5.2).
///
/// On Linux Foundation encodes every `%` again if any character is not allowed: `/?a=%20b c` becomes `/?a=%2520b%20c`,
/// another resource. Here each part is encoded by its own set of characters, and existing encodings are kept.
///
/// No character is dropped or replaced by another, so that every parser sees the same host. In particular `\` is not
/// treated as `/`, and tabs and line breaks are encoded; in the authority, where browsers take a `\` for the end of the
/// host, all of these are refused.
package enum URLReference {
    /// The URL of a reference; nil if it is invalid, for a relative reference without a base, and for an http or https
    /// URL without a host.
    ///
    /// - Parameters:
    ///   - reference: its text, whose disallowed characters are encoded as UTF-8.
    ///   - base: the base URL for a relative reference.
    package static func url(_ reference: String, relativeTo base: URL? = nil) -> URL? {
        url(Array(reference.utf8), relativeTo: base)
    }

    /// The URL of a reference given as bytes in any encoding: each byte that is not allowed is percent-encoded.
    package static func url(_ reference: [UInt8], relativeTo base: URL? = nil) -> URL? {
        guard let target = parts(of: reference, relativeTo: base?.absoluteString),
            !target.isHTTP || target.hasHost
        else { return nil }
        // All characters are allowed by now, so there is nothing left for Foundation to encode.
        return URL(string: target.text, encodingInvalidCharacters: false)
    }

    /// The text of the target (RFC 3986, section 5.2.2, strict).
    static func text(_ reference: String, relativeTo base: String?) -> String? {
        parts(of: Array(reference.utf8), relativeTo: base)?.text
    }

    private static func parts(of reference: [UInt8], relativeTo base: String?) -> URLParts? {
        var target = URLParts(reference[...])
        if target.scheme == nil {
            guard let base = base.map({ URLParts(Array($0.utf8)[...]) }), base.scheme != nil else { return nil }
            target.scheme = base.scheme
            if target.authority == nil {
                target.authority = base.authority
                if target.path.isEmpty {
                    target.path = base.path
                    target.query = target.query ?? base.query
                } else {
                    if target.path.first != UInt8(ascii: "/") { target.path = base.merged(with: target.path) }
                    target.path = URLParts.removingDotSegments(target.path)
                }
            } else {
                target.path = URLParts.removingDotSegments(target.path)
            }
        } else {
            target.path = URLParts.removingDotSegments(target.path)
        }
        return target.encoded()
    }
}
