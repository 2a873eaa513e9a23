import Foundation

/// Makes the URL of a reference as servers and people write them: absolute or relative, with characters in it that a
/// URL cannot have (RFC 3986, sections 4.1 and 5.2).
///
/// Foundation encodes every `%` once more as soon as a single character is not allowed: on Linux `/?a=%20b c` becomes
/// `/?a=%2520b%20c`, another resource. Here each part is encoded by its own set of characters and what is encoded
/// already stays as it is.
///
/// Nothing is dropped and no character is taken for another, so that the host is the one that stands there for every
/// reader. In particular `\` is no `/`, and a tab or a line break inside is encoded; in the authority, where browsers
/// read a `\` as the end of the host, both are refused.
package enum URLReference {
    /// The URL of a reference; nil where there is none, for a relative reference without a base, and for an http or
    /// https URL without a host.
    ///
    /// - Parameters:
    ///   - reference: its text, whose other characters are encoded in UTF-8.
    ///   - base: what a relative reference is relative to.
    package static func url(_ reference: String, relativeTo base: URL? = nil) -> URL? {
        url(Array(reference.utf8), relativeTo: base)
    }

    /// The URL of a reference that came as bytes, whatever these mean: each that is not allowed is encoded as it is.
    package static func url(_ reference: [UInt8], relativeTo base: URL? = nil) -> URL? {
        guard let target = parts(of: reference, relativeTo: base?.absoluteString),
            !target.isHTTP || target.hasHost
        else { return nil }
        // Every character is one that a URL can have by now: nothing is left for Foundation to encode.
        return URL(string: target.text, encodingInvalidCharacters: false)
    }

    /// The text of the target (RFC 3986, section 5.2.2, strictly).
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
