import Foundation

/// A serializer that is built around an ``HTTPResponseSerializer``, as AFNetworking's are subclasses of it.
///
/// The status codes, content types, encoding and limits of ``http`` can be set on the serializer itself.
public protocol HTTPResponseSerialization: URLResponseSerialization {
    /// What is acceptable, and the limits.
    var http: HTTPResponseSerializer { get set }
}

extension HTTPResponseSerialization {
    /// The status codes that are success; nil for any. 200 to 299 by default.
    public var acceptableStatusCodes: StatusCodeSet? {
        get { http.acceptableStatusCodes }
        set { http.acceptableStatusCodes = newValue }
    }

    /// The media types that are acceptable, without parameters, compared without regard to case; nil for any.
    public var acceptableContentTypes: Set<String>? {
        get { http.acceptableContentTypes }
        set { http.acceptableContentTypes = newValue }
    }

    /// The encoding of text in a response that names none. UTF-8 by default.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// How much of a body is parsed.
    public var limits: ResponseLimits {
        get { http.limits }
        set { http.limits = newValue }
    }
}
