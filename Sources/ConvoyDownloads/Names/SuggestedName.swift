import ConvoySupport
import ConvoyTransport
import Foundation

/// The name under which a response is saved if nobody says another one.
public enum SuggestedName {
    /// The name if neither the server nor the URL tells one.
    public static let fallback = "download"

    /// A safe file name for the body of a response: that of `Content-Disposition` (RFC 6266), or else the last component
    /// of the path of the response's URL, which is the one after all redirects, or else ``fallback``.
    ///
    /// - Parameters:
    ///   - head: the head of the response.
    ///   - maximumLength: in bytes of UTF-8; see ``FileName/safe(_:maximumLength:)``.
    public static func name(for head: ResponseHead, maximumLength: Int = FileName.maximumLength) -> String {
        for value in head.values(of: "Content-Disposition") {
            if let name = ContentDisposition(value).fileName,
                let safe = FileName.safe(name, maximumLength: maximumLength)
            {
                return safe
            }
        }
        return name(for: head.url, maximumLength: maximumLength) ?? fallback
    }

    /// A safe file name out of the last component of a URL's path; nil if there is none.
    public static func name(for url: URL, maximumLength: Int = FileName.maximumLength) -> String? {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        guard let component = Array(path.utf8).split(separator: UInt8(ascii: "/")).last else { return nil }
        // An encoded slash is no separator in the URL, but it would be one in the file system.
        return FileName.safe(ASCII.text(PercentEncoding.decoded(component)[...]), maximumLength: maximumLength)
    }
}
