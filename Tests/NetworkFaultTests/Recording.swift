import Foundation

/// Responses of real servers over HTTP/1.1, as bytes. `Recordings/record.py` makes them anew.
struct Recording: Decodable, Sendable {
    /// A request and the response to it.
    struct Exchange: Decodable, Sendable {
        let method: String
        let target: String
        /// The fields of the request that matter to the response.
        let fields: [String: String]
        /// The body of the request.
        let body: String?
        /// The bytes of the response, in lines, one character for each byte.
        private let response: [String]
        /// The text of the body, where it is encoded.
        let decoded: String?

        /// The bytes of the response.
        var bytes: [UInt8] { response.flatMap { $0.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } } }
    }

    let name: String
    let server: String
    /// More than one, where the response redirects.
    let exchanges: [Exchange]

    static let all: Result<[Recording], any Error> = Result { try load("http1") }

    static func load<Value: Decodable>(_ name: String) throws -> Value {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Recordings/\(name).json")
        return try JSONDecoder().decode(Value.self, from: Data(contentsOf: file))
    }
}
