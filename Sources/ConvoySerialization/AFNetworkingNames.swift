import Foundation
import FoundationNetworking

// What the members of AFNetworking's request serializers and forms have become.

extension HTTPRequestSerialization {
    /// The headers of every request.
    @available(*, unavailable, renamed: "httpRequestHeaders")
    public var HTTPRequestHeaders: [String: String] { httpRequestHeaders }

    /// Whether cookies are handled.
    @available(*, unavailable, renamed: "httpShouldHandleCookies")
    public var HTTPShouldHandleCookies: Bool {
        get { true }
        set {}
    }

    /// Whether requests are sent before the responses to earlier ones have come.
    @available(*, unavailable, message: "libcurl does no pipelining. HTTP/2 needs no setting.")
    public var HTTPShouldUsePipelining: Bool {
        get { false }
        set {}
    }

    /// Whether requests are sent before the responses to earlier ones have come.
    @available(*, unavailable, message: "libcurl does no pipelining. HTTP/2 needs no setting.")
    public var httpShouldUsePipelining: Bool {
        get { false }
        set {}
    }

    /// The methods whose parameters go into the URL.
    @available(*, unavailable, renamed: "httpMethodsEncodingParametersInURI")
    public var HTTPMethodsEncodingParametersInURI: Set<String> {
        get { [] }
        set {}
    }

    /// Sends a user name and a password.
    @available(*, unavailable, renamed: "setAuthorizationHeader(username:password:)")
    public mutating func setAuthorizationHeaderFieldWithUsername(_ username: String, password: String) {}

    /// Sends `Token token="…"`.
    @available(*, unavailable, message: "setAuthorizationHeader(bearerToken:), or setValue(_:forHTTPHeaderField:)")
    public mutating func setAuthorizationHeaderFieldWithToken(_ token: String) {}

    /// Sets the style of queries.
    @available(*, unavailable, renamed: "setter:queryStringStyle(_:)")
    public mutating func setQueryStringSerializationWithStyle(_ style: QueryStringStyle) {}

    /// Sets what makes queries.
    @available(*, unavailable, renamed: "setter:queryStringSerialization(_:)", message: "Its closure throws.")
    public mutating func setQueryStringSerializationWithBlock(
        _ block: ((URLRequest, Any, UnsafeMutablePointer<NSError?>?) -> String)?
    ) {}

    /// Makes a request.
    @available(*, unavailable, message: "try request(method: .get, url: url, parameters: parameters)")
    public func requestWithMethod(
        _ method: String, URLString: String, parameters: Any?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }

    /// Makes a request with a form.
    @available(*, unavailable, message: "try multipartFormRequest(url:parameters:constructingBody:)")
    public func multipartFormRequestWithMethod(
        _ method: String, URLString: String, parameters: [String: Any]?,
        constructingBodyWithBlock block: ((MultipartFormData) -> Void)?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }

    /// Writes the body of a form into a file.
    @available(*, unavailable, renamed: "writeMultipartBody(of:to:completionHandler:)")
    public func requestWithMultipartFormRequest(
        _ request: URLRequest, writingStreamContentsToFile fileURL: URL, completionHandler: ((NSError?) -> Void)?
    ) -> URLRequest? { nil }

    /// Puts parameters into a request.
    @available(*, unavailable, message: "try request(bySerializing: request, with: parameters)")
    public func requestBySerializingRequest(
        _ request: URLRequest, withParameters parameters: Any?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }
}

extension HTTPRequestSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> HTTPRequestSerializer { HTTPRequestSerializer() }
}

extension JSONRequestSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> JSONRequestSerializer { JSONRequestSerializer() }

    /// A serializer with a formatting.
    @available(*, unavailable, renamed: "init(writingOptions:)")
    public static func serializerWithWritingOptions(
        _ writingOptions: JSONSerialization.WritingOptions
    ) -> JSONRequestSerializer { JSONRequestSerializer() }
}

extension PropertyListRequestSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> PropertyListRequestSerializer { PropertyListRequestSerializer() }

    /// A serializer with a format.
    @available(*, unavailable, renamed: "init(format:writeOptions:)")
    public static func serializerWithFormat(
        _ format: PropertyListSerialization.PropertyListFormat, writeOptions: PropertyListSerialization.WriteOptions
    ) -> PropertyListRequestSerializer { PropertyListRequestSerializer() }
}

extension MultipartFormData {
    /// Appends a file from disk.
    @available(*, unavailable, renamed: "appendPart(fileURL:name:)")
    public mutating func appendPartWithFileURL(_ fileURL: URL, name: String) throws {}

    /// Appends a file from disk.
    @available(*, unavailable, renamed: "appendPart(fileURL:name:)")
    public mutating func appendPart(withFileURL fileURL: URL, name: String) throws {}

    /// Appends a file from disk, with a name and a type.
    @available(*, unavailable, renamed: "appendPart(fileURL:name:fileName:mimeType:)")
    public mutating func appendPartWithFileURL(_ fileURL: URL, name: String, fileName: String, mimeType: String) throws {}

    /// Appends a file from disk, with a name and a type.
    @available(*, unavailable, renamed: "appendPart(fileURL:name:fileName:mimeType:)")
    public mutating func appendPart(withFileURL fileURL: URL, name: String, fileName: String, mimeType: String) throws {}

    /// Appends a file from a stream.
    @available(*, unavailable, renamed: "appendPart(inputStream:name:fileName:length:mimeType:)")
    public mutating func appendPartWithInputStream(
        _ inputStream: InputStream?, name: String, fileName: String, length: Int64, mimeType: String
    ) {}

    /// Appends a file from a stream.
    @available(*, unavailable, renamed: "appendPart(inputStream:name:fileName:length:mimeType:)")
    public mutating func appendPart(
        with inputStream: InputStream?, name: String, fileName: String, length: Int64, mimeType: String
    ) {}

    /// Appends a file from memory.
    @available(*, unavailable, renamed: "appendPart(fileData:name:fileName:mimeType:)")
    public mutating func appendPartWithFileData(_ data: Data, name: String, fileName: String, mimeType: String) {}

    /// Appends a file from memory.
    @available(*, unavailable, renamed: "appendPart(fileData:name:fileName:mimeType:)")
    public mutating func appendPart(withFileData data: Data, name: String, fileName: String, mimeType: String) {}

    /// Appends a value.
    @available(*, unavailable, renamed: "appendPart(formData:name:)")
    public mutating func appendPartWithFormData(_ data: Data, name: String) {}

    /// Appends a value.
    @available(*, unavailable, renamed: "appendPart(formData:name:)")
    public mutating func appendPart(withForm data: Data, name: String) {}

    /// Appends a part with headers of its own.
    @available(*, unavailable, renamed: "appendPart(headers:body:)")
    public mutating func appendPartWithHeaders(_ headers: [String: String]?, body: Data) {}

    /// Appends a part with headers of its own.
    @available(*, unavailable, renamed: "appendPart(headers:body:)")
    public mutating func appendPart(withHeaders headers: [String: String]?, body: Data) {}

    /// Slows the upload down.
    @available(*, unavailable, renamed: "throttleBandwidth(packetSize:delay:)")
    public mutating func throttleBandwidthWithPacketSize(_ numberOfBytes: Int, delay: TimeInterval) {}

    /// Slows the upload down.
    @available(*, unavailable, renamed: "throttleBandwidth(packetSize:delay:)")
    public mutating func throttleBandwidth(withPacketSize numberOfBytes: Int, delay: TimeInterval) {}
}
