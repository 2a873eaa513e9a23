import Foundation

extension TestServer.Response {
    /// Text in UTF-8.
    public static func text(_ text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "text/plain; charset=utf-8", status: status)
    }

    /// A value as JSON. If it cannot be encoded, the response is a 500 with the reason.
    public static func json(_ value: some Encodable, status: Int = 200) -> Self {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return bytes(try encoder.encode(value), type: "application/json", status: status)
        } catch {
            return .text("The response could not be encoded as JSON: \(error)", status: 500)
        }
    }

    /// A text as JSON: one that is an array or an object of JSON is sent as it is, and any other as a string in quotes.
    public static func json(_ text: String, status: Int = 200) -> Self {
        if (try? JSONSerialization.jsonObject(with: Data(text.utf8))) != nil { return json(text: text, status: status) }
        return json(String?.some(text), status: status)
    }

    /// JSON from text, valid or not.
    public static func json(text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "application/json", status: status)
    }

    /// Bytes of a media type.
    public static func bytes(_ data: Data, type: String = "application/octet-stream", status: Int = 200) -> Self {
        Self(status: status, headers: ["Content-Type": type], body: .data(data))
    }

    /// A status without a body.
    public static func status(_ status: Int, headers: TestServer.Headers = [:]) -> Self {
        Self(status: status, headers: headers)
    }

    /// A redirect (RFC 9110 section 15.4). The location is sent unchanged.
    public static func redirect(to location: String, status: Int = 302) -> Self {
        Self(status: status, headers: ["Location": location])
    }

    /// `count` bytes of `PatternBytes`, generated while they are sent: a body of many GiB takes no memory.
    public static func pattern(count: Int, offset: Int = 0) -> Self {
        Self(
            headers: ["Content-Type": "application/octet-stream"],
            body: .pattern(count: max(0, count), offset: max(0, offset)))
    }

    /// A chunked body, one HTTP chunk for each part that is not empty, with a pause of `interval` seconds between them.
    public static func chunked(
        _ chunks: [Data], every interval: TimeInterval = 0, type: String = "application/octet-stream"
    ) -> Self {
        var response = Self(headers: ["Content-Type": type], body: .chunks(chunks))
        if interval > 0 { response.effects.pace = .betweenChunks(interval) }
        return response
    }

    /// A chunked body of texts, one HTTP chunk for each, with a pause of `interval` seconds between them.
    public static func chunked(_ texts: [String], every interval: TimeInterval = 0, type: String = "text/plain") -> Self {
        chunked(texts.map { Data($0.utf8) }, every: interval, type: type)
    }

    /// A body with a Content-Length, sent in parts of `chunk` bytes with `interval` seconds between them.
    public static func drip(_ data: Data, chunk: Int, interval: TimeInterval) -> Self {
        var response = bytes(data)
        response.effects.pace = .drip(bytes: chunk, interval: interval)
        return response
    }

    /// Raw bytes in place of an HTTP response. The connection is closed after them.
    public static func raw(_ data: Data) -> Self {
        Self(body: .raw(data))
    }

    /// Raw text in place of an HTTP response. The connection is closed after it.
    public static func raw(_ text: String) -> Self {
        raw(Data(text.utf8))
    }
}
