import Foundation
import FoundationNetworking

// What the members of AFNetworking's response serializers have become.

extension HTTPResponseSerialization {
    /// Checks the status and the content type.
    @available(*, unavailable, message: "try http.validate(response, data: data)")
    public func validateResponse(
        _ response: HTTPURLResponse?, data: Data?, error: UnsafeMutablePointer<NSError?>?
    ) -> Bool { false }

    /// Makes an object of a response.
    @available(*, unavailable, message: "try responseObject(for: response, data: data)")
    public func responseObjectForResponse(
        _ response: URLResponse?, data: Data?, error: UnsafeMutablePointer<NSError?>?
    ) -> Any? { nil }
}

extension HTTPResponseSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> HTTPResponseSerializer { HTTPResponseSerializer() }
}

extension JSONResponseSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> JSONResponseSerializer { JSONResponseSerializer() }

    /// A serializer with options.
    @available(*, unavailable, renamed: "init(readingOptions:)")
    public static func serializerWithReadingOptions(
        _ readingOptions: JSONSerialization.ReadingOptions
    ) -> JSONResponseSerializer { JSONResponseSerializer() }
}

extension XMLParserResponseSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> XMLParserResponseSerializer { XMLParserResponseSerializer() }
}

extension XMLDocumentResponseSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> XMLDocumentResponseSerializer { XMLDocumentResponseSerializer() }

    /// A serializer with options.
    @available(*, unavailable, renamed: "init(options:)")
    public static func serializerWithXMLDocumentOptions(_ mask: Int) -> XMLDocumentResponseSerializer { .init() }

    /// A serializer with options.
    @available(*, unavailable, renamed: "init(options:)")
    public init(xmlDocumentOptions mask: Int) { self.init() }
}

extension PropertyListResponseSerializer {
    /// A serializer with the defaults.
    @available(*, unavailable, renamed: "init()")
    public static func serializer() -> PropertyListResponseSerializer { PropertyListResponseSerializer() }

    /// A serializer with a format, which AFNetworking does not use either.
    @available(*, unavailable, message: "PropertyListResponseSerializer(readOptions:), which reads every format")
    public static func serializerWithFormat(
        _ format: PropertyListSerialization.PropertyListFormat, readOptions: PropertyListSerialization.ReadOptions
    ) -> PropertyListResponseSerializer { PropertyListResponseSerializer() }

    /// A serializer with a format, which AFNetworking does not use either.
    @available(*, unavailable, message: "PropertyListResponseSerializer(readOptions:), which reads every format")
    public init(
        format: PropertyListSerialization.PropertyListFormat, readOptions: PropertyListSerialization.ReadOptions
    ) { self.init() }
}

extension CompoundResponseSerializer {
    /// A serializer that tries others in turn.
    @available(*, unavailable, renamed: "init(_:)")
    public static func compoundSerializerWithResponseSerializers(
        _ responseSerializers: [any URLResponseSerialization]
    ) -> CompoundResponseSerializer { CompoundResponseSerializer([]) }

    /// A serializer that tries others in turn.
    @available(*, unavailable, renamed: "init(_:)")
    public static func compoundSerializer(
        withResponseSerializers responseSerializers: [any URLResponseSerialization]
    ) -> CompoundResponseSerializer { CompoundResponseSerializer([]) }
}
