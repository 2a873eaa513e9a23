import ConvoySerialization
import Foundation
import FoundationNetworking

// This file declares the AFNetworking names of this module's APIs as unavailable, so that the compiler suggests the
// replacement instead of reporting an unknown name.

// MARK: Requests

/// The protocol of serializers that add parameters to requests.
@available(*, unavailable, renamed: "URLRequestSerialization")
public typealias AFURLRequestSerialization = URLRequestSerialization

/// The serializer for queries and forms.
@available(*, unavailable, renamed: "HTTPRequestSerializer")
public typealias AFHTTPRequestSerializer = HTTPRequestSerializer

/// The serializer for JSON.
@available(*, unavailable, renamed: "JSONRequestSerializer")
public typealias AFJSONRequestSerializer = JSONRequestSerializer

/// The serializer for property lists.
@available(*, unavailable, renamed: "PropertyListRequestSerializer")
public typealias AFPropertyListRequestSerializer = PropertyListRequestSerializer

/// The parts of a form.
@available(*, unavailable, renamed: "MultipartFormData")
public typealias AFMultipartFormData = MultipartFormData

/// Returns the content type for an extension of file names.
@available(*, unavailable, renamed: "MIMEType.type(forPathExtension:)")
public func AFContentTypeForPathExtension(_ pathExtension: String) -> String {
    MIMEType.type(forPathExtension: pathExtension)
}

/// The format of parameters in a query.
@available(*, unavailable, renamed: "QueryStringStyle")
public typealias AFHTTPRequestQueryStringSerializationStyle = QueryStringStyle

/// The style with brackets.
@available(*, unavailable, renamed: "QueryStringStyle.brackets")
public var AFHTTPRequestQueryStringDefaultStyle: QueryStringStyle { .brackets }

/// Returns the query string for parameters.
@available(*, unavailable, message: "try QueryStringStyle.brackets.queryString(from: parameters)")
public func AFQueryStringFromParameters(_ parameters: [AnyHashable: Any]) -> String { "" }

/// Returns the fields of a query.
@available(*, unavailable, message: "try QueryStringStyle.brackets.queryString(from: parameters)")
public func AFQueryStringPairsFromDictionary(_ dictionary: [AnyHashable: Any]) -> [Any] { [] }

/// Escapes a string for a query.
@available(*, unavailable, renamed: "PercentEscaping.escape(_:)")
public func AFPercentEscapedStringFromString(_ string: String) -> String { PercentEscaping.escape(string) }

/// The size of a packet on a slow network.
@available(*, unavailable, renamed: "MultipartFormData.suggestedPacketSize")
public var kAFUploadStream3GSuggestedPacketSize: Int { MultipartFormData.suggestedPacketSize }

/// The delay after a packet on a slow network.
@available(*, unavailable, renamed: "MultipartFormData.suggestedDelay")
public var kAFUploadStream3GSuggestedDelay: TimeInterval { MultipartFormData.suggestedDelay }

/// The domain of the request serializers' errors.
@available(*, unavailable, renamed: "URLRequestSerializationErrorDomain")
public var AFURLRequestSerializationErrorDomain: String { URLRequestSerializationErrorDomain }

/// The key of the request that failed.
@available(*, unavailable, renamed: "URLRequestSerializationErrorKey.failingURLRequest")
public var AFNetworkingOperationFailingURLRequestErrorKey: String { URLRequestSerializationErrorKey.failingURLRequest }

// MARK: Responses

/// The protocol of serializers that create objects from responses.
@available(*, unavailable, renamed: "URLResponseSerialization")
public typealias AFURLResponseSerialization = URLResponseSerialization

/// The serializer that returns the body unchanged.
@available(*, unavailable, renamed: "HTTPResponseSerializer")
public typealias AFHTTPResponseSerializer = HTTPResponseSerializer

/// The serializer for JSON.
@available(*, unavailable, renamed: "JSONResponseSerializer")
public typealias AFJSONResponseSerializer = JSONResponseSerializer

/// The serializer that returns an `XMLParser`.
@available(*, unavailable, renamed: "XMLParserResponseSerializer")
public typealias AFXMLParserResponseSerializer = XMLParserResponseSerializer

/// The serializer that returns an `XMLDocument`.
@available(*, unavailable, renamed: "XMLDocumentResponseSerializer")
public typealias AFXMLDocumentResponseSerializer = XMLDocumentResponseSerializer

/// The serializer for property lists.
@available(*, unavailable, renamed: "PropertyListResponseSerializer")
public typealias AFPropertyListResponseSerializer = PropertyListResponseSerializer

/// The serializer that tries several serializers in turn.
@available(*, unavailable, renamed: "CompoundResponseSerializer")
public typealias AFCompoundResponseSerializer = CompoundResponseSerializer

/// The domain of the response serializers' errors.
@available(*, unavailable, renamed: "URLResponseSerializationErrorDomain")
public var AFURLResponseSerializationErrorDomain: String { URLResponseSerializationErrorDomain }

/// The key of the response that is not acceptable.
@available(*, unavailable, renamed: "URLResponseSerializationErrorKey.response")
public var AFNetworkingOperationFailingURLResponseErrorKey: String { URLResponseSerializationErrorKey.response }

/// The key of the body of a response that is not acceptable.
@available(*, unavailable, renamed: "URLResponseSerializationErrorKey.data")
public var AFNetworkingOperationFailingURLResponseDataErrorKey: String { URLResponseSerializationErrorKey.data }

// MARK: Members of request serializers and forms

extension HTTPRequestSerialization {
    /// The headers added to every request.
    @available(*, unavailable, renamed: "httpRequestHeaders")
    public var HTTPRequestHeaders: [String: String] { httpRequestHeaders }

    /// Whether requests send stored cookies, and store those of their responses.
    @available(*, unavailable, renamed: "httpShouldHandleCookies")
    public var HTTPShouldHandleCookies: Bool {
        get { true }
        set {}
    }

    /// Whether requests are sent before the responses to earlier requests have arrived.
    @available(
        *, unavailable, message: "Remove the setting: libcurl does not support pipelining, and HTTP/2 is the default."
    )
    public var HTTPShouldUsePipelining: Bool {
        get { false }
        set {}
    }

    /// Whether requests are sent before the responses to earlier requests have arrived.
    @available(
        *, unavailable, message: "Remove the setting: libcurl does not support pipelining, and HTTP/2 is the default."
    )
    public var httpShouldUsePipelining: Bool {
        get { false }
        set {}
    }

    /// The methods whose parameters are added to the URL.
    @available(*, unavailable, renamed: "httpMethodsEncodingParametersInURI")
    public var HTTPMethodsEncodingParametersInURI: Set<String> {
        get { [] }
        set {}
    }

    /// Sets the `Authorization` header for a user name and a password.
    @available(*, unavailable, renamed: "setAuthorizationHeader(username:password:)")
    public mutating func setAuthorizationHeaderFieldWithUsername(_ username: String, password: String) {}

    /// Sets the `Authorization` header to `Token token="…"`.
    @available(*, unavailable, message: "setAuthorizationHeader(bearerToken:), or setValue(_:forHTTPHeaderField:)")
    public mutating func setAuthorizationHeaderFieldWithToken(_ token: String) {}

    /// Sets the style of queries.
    @available(*, unavailable, renamed: "setter:queryStringStyle(_:)")
    public mutating func setQueryStringSerializationWithStyle(_ style: QueryStringStyle) {}

    /// Sets the closure that creates queries.
    @available(*, unavailable, renamed: "setter:queryStringSerialization(_:)", message: "The closure can throw.")
    public mutating func setQueryStringSerializationWithBlock(
        _ block: ((URLRequest, Any, UnsafeMutablePointer<NSError?>?) -> String)?
    ) {}

    /// Creates a request.
    @available(*, unavailable, message: "try request(method: .get, url: url, parameters: parameters)")
    public func requestWithMethod(
        _ method: String, URLString: String, parameters: Any?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }

    /// Creates a request with a multipart form.
    @available(*, unavailable, message: "try multipartFormRequest(url:parameters:constructingBody:)")
    public func multipartFormRequestWithMethod(
        _ method: String, URLString: String, parameters: [String: Any]?,
        constructingBodyWithBlock block: ((inout MultipartFormData) -> Void)?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }

    /// Writes the body of a form to a file.
    @available(*, unavailable, renamed: "writeMultipartBody(of:to:completionHandler:)")
    public func requestWithMultipartFormRequest(
        _ request: URLRequest, writingStreamContentsToFile fileURL: URL, completionHandler: ((NSError?) -> Void)?
    ) -> URLRequest? { nil }

    /// Adds parameters to a request.
    @available(*, unavailable, message: "try request(bySerializing: request, with: parameters)")
    public func requestBySerializingRequest(
        _ request: URLRequest, withParameters parameters: Any?, error: UnsafeMutablePointer<NSError?>?
    ) -> URLRequest? { nil }
}

extension HTTPRequestSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> HTTPRequestSerializer { HTTPRequestSerializer() }
}

extension JSONRequestSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> JSONRequestSerializer { JSONRequestSerializer() }

    /// Creates a serializer with writing options.
    @available(*, unavailable, renamed: "init(writingOptions:)")
    public static func serializerWithWritingOptions(
        _ writingOptions: JSONSerialization.WritingOptions
    ) -> JSONRequestSerializer { JSONRequestSerializer() }
}

extension PropertyListRequestSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> PropertyListRequestSerializer { PropertyListRequestSerializer() }

    /// Creates a serializer with a format.
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

    /// Appends a part with custom headers.
    @available(*, unavailable, renamed: "appendPart(headers:body:)")
    public mutating func appendPartWithHeaders(_ headers: [String: String]?, body: Data) {}

    /// Appends a part with custom headers.
    @available(*, unavailable, renamed: "appendPart(headers:body:)")
    public mutating func appendPart(withHeaders headers: [String: String]?, body: Data) {}

    /// Limits the upload rate.
    @available(*, unavailable, renamed: "throttleBandwidth(packetSize:delay:)")
    public mutating func throttleBandwidthWithPacketSize(_ numberOfBytes: Int, delay: TimeInterval) {}

    /// Limits the upload rate.
    @available(*, unavailable, renamed: "throttleBandwidth(packetSize:delay:)")
    public mutating func throttleBandwidth(withPacketSize numberOfBytes: Int, delay: TimeInterval) {}
}

// MARK: Members of response serializers

extension HTTPResponseSerialization {
    /// Validates the status and the content type.
    @available(*, unavailable, message: "try http.validate(response, data: data)")
    public func validateResponse(
        _ response: HTTPURLResponse?, data: Data?, error: UnsafeMutablePointer<NSError?>?
    ) -> Bool { false }

    /// Returns an object for a response.
    @available(*, unavailable, message: "try responseObject(for: response, data: data)")
    public func responseObjectForResponse(
        _ response: URLResponse?, data: Data?, error: UnsafeMutablePointer<NSError?>?
    ) -> Any? { nil }
}

extension HTTPResponseSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> HTTPResponseSerializer { HTTPResponseSerializer() }
}

extension JSONResponseSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> JSONResponseSerializer { JSONResponseSerializer() }

    /// Creates a serializer with options.
    @available(*, unavailable, renamed: "init(readingOptions:)")
    public static func serializerWithReadingOptions(
        _ readingOptions: JSONSerialization.ReadingOptions
    ) -> JSONResponseSerializer { JSONResponseSerializer() }
}

extension XMLParserResponseSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> XMLParserResponseSerializer { XMLParserResponseSerializer() }
}

extension XMLDocumentResponseSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> XMLDocumentResponseSerializer { XMLDocumentResponseSerializer() }

    /// Creates a serializer with options.
    @available(*, unavailable, renamed: "init(options:)")
    public static func serializerWithXMLDocumentOptions(_ mask: Int) -> XMLDocumentResponseSerializer { .init() }

    /// Creates a serializer with options.
    @available(*, unavailable, renamed: "init(options:)")
    public init(xmlDocumentOptions mask: Int) { self.init() }
}

extension PropertyListResponseSerializer {
    /// Creates a serializer with the default settings.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> PropertyListResponseSerializer { PropertyListResponseSerializer() }

    /// Creates a serializer with a format. AFNetworking ignores the format too.
    @available(*, unavailable, message: "PropertyListResponseSerializer(readOptions:), which reads every format")
    public static func serializerWithFormat(
        _ format: PropertyListSerialization.PropertyListFormat, readOptions: PropertyListSerialization.ReadOptions
    ) -> PropertyListResponseSerializer { PropertyListResponseSerializer() }

    /// Creates a serializer with a format. AFNetworking ignores the format too.
    @available(*, unavailable, message: "PropertyListResponseSerializer(readOptions:), which reads every format")
    public init(
        format: PropertyListSerialization.PropertyListFormat, readOptions: PropertyListSerialization.ReadOptions
    ) { self.init() }
}

extension CompoundResponseSerializer {
    /// Creates a serializer that tries several serializers in turn.
    @available(*, unavailable, renamed: "init(_:)")
    public static func compoundSerializerWithResponseSerializers(
        _ responseSerializers: [any URLResponseSerialization]
    ) -> CompoundResponseSerializer { CompoundResponseSerializer([]) }

    /// Creates a serializer that tries several serializers in turn.
    @available(*, unavailable, renamed: "init(_:)")
    public static func compoundSerializer(
        withResponseSerializers responseSerializers: [any URLResponseSerialization]
    ) -> CompoundResponseSerializer { CompoundResponseSerializer([]) }
}
