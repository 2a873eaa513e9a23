import Foundation
import FoundationNetworking

/// Parses a property list into dictionaries, arrays and so on. The counterpart of `AFPropertyListResponseSerializer`.
public struct PropertyListResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits. Accepts `application/x-plist` by default.
    public var http = HTTPResponseSerializer(contentTypes: ["application/x-plist"])
    /// The parser's options.
    public var readOptions: PropertyListSerialization.ReadOptions

    /// A serializer that accepts `application/x-plist`.
    public init(readOptions: PropertyListSerialization.ReadOptions = []) {
        self.readOptions = readOptions
    }

    /// The root object; nil for a success without a body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; `PropertyListSerialization`'s error
    ///   (`NSCocoaErrorDomain`, 3840); an error for an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let isBinary = data.starts(with: BinaryPropertyList.magic)
            if isBinary { try BinaryPropertyList.check(data, limits: http.limits, response: response) }
            var format = PropertyListSerialization.PropertyListFormat.xml
            let object = try PropertyListSerialization.propertyList(from: data, options: readOptions, format: &format)
            // Foundation parses a truncated binary list as text in the old OpenStep format.
            guard !isBinary || format == .binary else { throw BinaryPropertyList.malformed }
            return object
        }
    }
}
