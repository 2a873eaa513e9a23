import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// The files of the JSON Parsing Test Suite (https://github.com/nst/JSONTestSuite), decoded by both decoders.
@Suite(.enabled(if: ConformanceSuite.directory("json") != nil, .init(rawValue: ConformanceSuite.hint("json"))))
struct JSONSuiteTests {
    /// Returns the files of the suite: `y_` files must be accepted, `n_` files rejected, and `i_` files may be either.
    private func files() throws -> [(name: String, data: Data)] {
        let directory = try #require(ConformanceSuite.directory("json"))
        let all = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil)
        return try (all?.compactMap { $0 as? URL } ?? [])
            .filter { $0.pathExtension == "json" && ["y_", "n_", "i_"].contains($0.lastPathComponent.prefix(2)) }
            .map { ($0.lastPathComponent, try Data(contentsOf: $0)) }
    }

    @Test func `only valid or permitted JSON is decoded directly, and as in Foundation`() throws {
        let files = try files()
        #expect(!files.isEmpty)
        for file in files {
            let own = Result { try JSONDecoder().decodePlain(AnyJSON.self, from: file.data, maximumDepth: 512) }
            let isIndexed = (try? own.get()) != AnyJSON?.none
            if file.name.hasPrefix("y_") { #expect(isIndexed, "\(file.name)") }
            if file.name.hasPrefix("n_") { #expect(!isIndexed, "\(file.name)") }
            let outcome = DecodingOutcome.of { try JSONDecoder().decodeIndexed(AnyJSON.self, from: file.data).text }
            let expected = DecodingOutcome.of { try JSONDecoder().decode(AnyJSON.self, from: file.data).text }
            #expect(outcome == expected, "\(file.name)")
        }
    }
}

/// Any JSON, as text that shows every difference.
private struct AnyJSON: Decodable, Equatable {
    let text: String

    init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: AnyKey.self) {
            let members = try container.allKeys.map {
                "\($0.stringValue): \(try container.decode(AnyJSON.self, forKey: $0).text)"
            }
            text = "{\(members.sorted().joined(separator: ", "))}"
        } else if let array = try? [AnyJSON](from: decoder) {
            text = "[\(array.map(\.text).joined(separator: ", "))]"
        } else {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                text = "null"
            } else if let value = try? container.decode(Bool.self) {
                text = "\(value)"
            } else if let value = try? container.decode(String.self) {
                text = DecodingOutcome.text(of: value)
            } else {
                text = DecodingOutcome.text(of: try container.decode(Double.self))
            }
        }
    }
}
