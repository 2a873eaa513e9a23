import Foundation

/// Responses of real HTTP/1.1 servers, as bytes. `Recordings/record.py` records them again.
struct Recording: Decodable, Sendable {
    /// A request and its response.
    struct Exchange: Decodable, Sendable {
        let method: String
        let target: String
        /// The fields of the request that affect the response.
        let fields: [String: String]
        /// The body of the request.
        let body: String?
        /// The bytes of the response, as lines with one character per byte.
        private let response: [String]
        /// The decoded text of the body, if it is encoded.
        let decoded: String?

        /// The bytes of the response.
        var bytes: [UInt8] { response.flatMap { $0.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } } }
    }

    let name: String
    let server: String
    /// The exchanges; more than one if the response is a redirect.
    let exchanges: [Exchange]

    static let all: Result<[Recording], any Error> = Result { try load("http1") }

    static func load<Value: Decodable>(_ name: String) throws -> Value {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Recordings/\(name).json")
        return try JSONDecoder().decode(Value.self, from: Data(contentsOf: file))
    }
}
