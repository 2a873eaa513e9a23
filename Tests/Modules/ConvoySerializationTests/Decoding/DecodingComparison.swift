import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// Expects the same result from both decoders, and that the text was not passed to Foundation's decoder.
func expectSame<Value: Decodable>(
    _ type: Value.Type, _ text: String, _ prepare: (JSONDecoder) -> Void = { _ in },
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let decoder = JSONDecoder()
    prepare(decoder)
    let data = bytes(text)
    let expected = DecodingOutcome.of { try decoder.decode(type, from: data) }
    let outcome = DecodingOutcome.of {
        try #require(try decoder.decodePlain(type, from: data, maximumDepth: 512), "left to Foundation")
    }
    #expect(outcome == expected, "\(text.prefix(200))", sourceLocation: sourceLocation)
}
