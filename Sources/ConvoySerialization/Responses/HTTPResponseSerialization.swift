import Foundation

/// A serializer that wraps an ``HTTPResponseSerializer``, where AFNetworking's are subclasses of it.
///
/// The status codes, content types, encoding and limits of ``http`` can be set on the serializer itself.
public protocol HTTPResponseSerialization: URLResponseSerialization {
    /// The wrapped serializer: which responses are acceptable, and the limits.
    var http: HTTPResponseSerializer { get set }
}

extension HTTPResponseSerialization {
    /// The acceptable status codes; nil for any. 200 to 299 by default.
    public var acceptableStatusCodes: StatusCodeSet? {
        get { http.acceptableStatusCodes }
        set { http.acceptableStatusCodes = newValue }
    }

    /// The acceptable media types, without parameters and case-insensitive; nil for any.
    public var acceptableContentTypes: Set<String>? {
        get { http.acceptableContentTypes }
        set { http.acceptableContentTypes = newValue }
    }

    /// The encoding of text in a response that names no charset. UTF-8 by default.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// Limits on the bodies that are parsed.
    public var limits: ResponseLimits {
        get { http.limits }
        set { http.limits = newValue }
    }
}
