import Foundation

/// A value that is sent and received as a body of a media type of its own.
///
/// Where a call of a manager is given one as `body`, it is sent as this type, and not as plain JSON; where one is awaited,
/// a response of this type is parsed by it.
public protocol HTTPBodyCodable: Codable, Sendable {
    /// The media type of the body, such as `application/json-patch+json`.
    static var mediaType: String { get }

    /// Parses a body.
    ///
    /// - Parameters:
    ///   - httpBody: the bytes, decoded.
    ///   - limits: how deep the body may be nested. Its size has been checked.
    /// - Throws: whatever says what is wrong with it.
    init(httpBody: Data, limits: ResponseLimits) throws

    /// The body.
    func httpBody() throws -> Data
}
