import ConvoyRealtime
import ConvoyTestSupport
import Foundation

/// A stream from the web platform tests, and the events that a browser dispatches for it.
struct EventVector: Decodable, Sendable, CustomStringConvertible {
    struct Event: Decodable, Sendable, Hashable {
        var type: String
        var data: String
        var lastEventId: String

        init(_ event: ServerSentEvent) { (type, data, lastEventId) = (event.type, event.data, event.lastEventID) }
    }

    var source: String
    var stream: Data
    var events: [Event]
    var chunks: [Int]?
    var contentType: String?
    var retry: Double?
    var lastEventIdAtReconnect: String?

    var description: String { source }

    static var isThere: Bool { ConformanceSuite.directory("sse") != nil }
    static let hint = ConformanceSuite.hint("sse")

    static func all() throws -> [EventVector] {
        guard let directory = ConformanceSuite.directory("sse") else { return [] }
        let data = try Data(contentsOf: directory.appendingPathComponent("wpt.json"))
        return try JSONDecoder().decode([EventVector].self, from: data)
    }

    /// The stream in pieces of different sizes: the whole stream, pieces of one, two or three bytes, and those in the
    /// vector.
    var chunkings: [[Data]] {
        var all = [[stream]]
        for size in 1...3 { all.append(stream.pieces(of: size)) }
        if let chunks {
            var (rest, pieces) = (stream[...], [Data]())
            for size in chunks {
                pieces.append(Data(rest.prefix(size)))
                rest = rest.dropFirst(size)
            }
            if !rest.isEmpty { pieces.append(Data(rest)) }
            all.append(pieces)
        }
        return all
    }
}

extension Data {
    func pieces(of size: Int) -> [Data] {
        stride(from: 0, to: count, by: size).map {
            Data(self[startIndex + $0..<Swift.min(startIndex + $0 + size, endIndex)])
        }
    }
}
