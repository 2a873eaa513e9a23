import ConvoyRealtime
import Testing

@Suite struct ServerSentEventTests {
    @Test func `an event is a message unless it says otherwise`() {
        #expect(ServerSentEvent(data: "x").type == "message")
    }
}
