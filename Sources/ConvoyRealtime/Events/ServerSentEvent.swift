/// An event of a stream of server-sent events, as the WHATWG standard (HTML, 9.2) dispatches it.
public struct ServerSentEvent: Sendable, Hashable {
    /// The type: that of the field `event`, or `message` where the server gave none.
    public var type: String
    /// The text: that of all fields `data`, with a line feed between two of them.
    public var data: String
    /// The last identifier that the server had given when the event was dispatched; empty where it gave none.
    public var lastEventID: String

    /// Makes an event.
    public init(type: String = "message", data: String, lastEventID: String = "") {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
    }
}
