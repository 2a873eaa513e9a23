import Foundation
import FoundationNetworking

/// Parses a property list into dictionaries, arrays and so on. The counterpart of `AFPropertyListResponseSerializer`.
public struct PropertyListResponseSerializer: HTTPResponseSerialization {
    /// What is acceptable, and the limits. `application/x-plist`.
    public var http = HTTPResponseSerializer(contentTypes: ["application/x-plist"])
    /// How to read.
    public var readOptions: PropertyListSerialization.ReadOptions

    /// A serializer that accepts `application/x-plist`.
    public init(readOptions: PropertyListSerialization.ReadOptions = []) {
        self.readOptions = readOptions
    }

    /// The root object; nil for success with nothing.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; `PropertyListSerialization`'s error
    ///   (`NSCocoaErrorDomain`, 3840); a passed limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let isBinary = data.starts(with: BinaryPropertyList.magic)
            if isBinary { try BinaryPropertyList.check(data, limits: http.limits, response: response) }
            var format = PropertyListSerialization.PropertyListFormat.xml
            let object = try PropertyListSerialization.propertyList(from: data, options: readOptions, format: &format)
            // Foundation reads a binary list that is cut short as text in the oldest format.
            guard !isBinary || format == .binary else { throw BinaryPropertyList.malformed }
            return object
        }
    }
}
