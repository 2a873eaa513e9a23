import ConvoyRealtime
import Testing

@Suite struct ServerSentEventTests {
    @Test func `an event without a type is a message`() {
        #expect(ServerSentEvent(data: "x").type == "message")
    }

    @Test func `JSON data can be decoded`() throws {
        struct Price: Decodable { var value: Double }
        #expect(try ServerSentEvent(data: #"{"value": 1.5}"#).decoded(as: Price.self).value == 1.5)
        #expect(throws: DecodingError.self) { try ServerSentEvent(data: "x").decoded(as: Price.self) }
    }
}
