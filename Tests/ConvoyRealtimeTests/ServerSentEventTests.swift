import ConvoyRealtime
import Testing

@Suite struct ServerSentEventTests {
    @Test func `an event is a message unless it says otherwise`() {
        #expect(ServerSentEvent(data: "x").type == "message")
    }

    @Test func `data that is JSON is decoded`() throws {
        struct Price: Decodable { var value: Double }
        #expect(try ServerSentEvent(data: #"{"value": 1.5}"#).decoded(as: Price.self).value == 1.5)
        #expect(throws: DecodingError.self) { try ServerSentEvent(data: "x").decoded(as: Price.self) }
    }
}
