import Foundation

/// What a manager's calls take as a URL: a text, absolute or relative to the manager's `baseURL`, or a `URL`.
public protocol URLConvertible {
    /// The URL as text.
    var urlString: String { get }
}

extension String: URLConvertible {
    /// The text itself.
    public var urlString: String { self }
}

extension Substring: URLConvertible {
    /// The text itself.
    public var urlString: String { String(self) }
}

extension URL: URLConvertible {
    /// The absolute text; of a URL without a scheme or base its own, which a manager takes as relative to its base.
    public var urlString: String { absoluteString }
}
