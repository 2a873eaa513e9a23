import ConvoyTestSupport
import Foundation

@testable import ConvoyTransport

/// The frames that a real server sent on a connection for one request. `Recordings/record.py` records them again.
final class FrameRecording: Sendable {
    private struct File: Decodable {
        let name: String
        let method: String
        let target: String
        let fields: [String: String]
        let frames: [String]
        let decoded: String?
    }

    struct IsUnreadable: Error { var name: String }

    let name: String
    let method: String
    let target: String
    let fields: [String: String]
    let decoded: String?
    let frames: [Frame]
    /// The bytes of all frames.
    let bytes: [UInt8]
    /// The positions at which frames begin, and the end of the last one.
    let boundaries: [Int]
    let outcome: FaultOutcome

    static func all() throws -> [FrameRecording] {
        try (Recording.load("http2") as [File]).map { try FrameRecording($0) }
    }

    private init(_ file: File) throws {
        (name, method, target, fields, decoded) = (file.name, file.method, file.target, file.fields, file.decoded)
        let pieces = file.frames.map { Array(Data(base64Encoded: $0) ?? Data()) }
        bytes = pieces.flatMap { $0 }
        frames = pieces.compactMap { piece in
            var position = 0
            return Frame.first(of: piece, from: &position)
        }
        boundaries = pieces.reduce(into: [0]) { $0.append(($0.last ?? 0) + $1.count) }
        guard frames.count == pieces.count, let read = FrameReader.read(bytes, to: method) else {
            throw IsUnreadable(name: name)
        }
        outcome = FaultOutcome(status: read.status, body: decoded.map { Array($0.utf8) } ?? read.body)
    }

    /// Returns whether the response is complete with the bytes before a position.
    func isWhole(before position: Int) -> Bool {
        FrameReader.read(Array(bytes[..<position]), to: method, until: .length) != nil
    }
}

/// A recording of frames that is replayed with one fault.
struct FrameCase: ReplayedCase {
    enum Fault: Sendable {
        /// The server closes the connection after this number of bytes.
        case cut(Int)
        /// The server resets the connection after this number of bytes.
        case reset(Int)
        /// The server sends nothing after this number of bytes.
        case stall(Int)
        /// The bytes are sent one by one.
        case drip
        /// One byte is changed.
        case damage(at: Int, to: UInt8)
        /// GOAWAY before a frame, with the last stream and a code, followed by the other frames or the end of the
        /// connection.
        case goAway(before: Int, last: UInt32, code: UInt32, closes: Bool)
        /// RST_STREAM before a frame, followed by the other frames or none.
        case resetStream(before: Int, code: UInt32, goesOn: Bool)
        /// The response to the next request arrives after the first response, before that request is sent.
        case unasked
    }

    let number: Int
    let recording: FrameRecording
    let fault: Fault

    var method: String { recording.method }
    var target: String { recording.target }
    var fields: [String: String] { recording.fields }
    var body: String? { nil }
    var endsItsConnection: Bool { false }
    var description: String { "frame case \(number), \(recording.name): \(fault), frames begin at \(recording.boundaries)" }

    var stalls: Bool {
        switch fault {
        case .stall, .damage: true
        case .resetStream(_, _, let goesOn): !goesOn
        default: false
        }
    }

    /// Returns a frame of the response for another stream.
    func frame(_ frame: Frame, on stream: UInt32) -> Frame {
        var frame = frame
        if frame.stream == 1 { frame.stream = stream }
        return frame
    }

    /// The server's response to the first request.
    var play: Play {
        let bytes = recording.bytes
        func split(_ index: Int, _ frame: Frame, goesOn: Bool) -> [UInt8] {
            let position = recording.boundaries[index]
            var split = Array(bytes[..<position])
            split += frame.bytes
            if goesOn { split += bytes[position...] }
            return split
        }
        switch fault {
        case .cut(let count): return Play(bytes: Array(bytes[..<count]), end: .finish)
        case .reset(let count): return Play(bytes: Array(bytes[..<count]), end: .reset)
        case .stall(let count): return Play(bytes: Array(bytes[..<count]), end: .stall)
        case .drip: return Play(bytes: bytes, piece: 1)
        case .damage(let position, let value):
            var damaged = bytes
            damaged[position] = value
            return Play(bytes: damaged)
        case .goAway(let index, let last, let code, let closes):
            let frame = Frame(
                kind: Frame.Kind.goAway, flags: 0, stream: 0, payload: Frame.bytes(last) + Frame.bytes(code))
            return Play(bytes: split(index, frame, goesOn: !closes), end: closes ? .finish : .open)
        case .resetStream(let index, let code, let goesOn):
            let frame = Frame(kind: Frame.Kind.reset, flags: 0, stream: 1, payload: Frame.bytes(code))
            return Play(bytes: split(index, frame, goesOn: goesOn))
        case .unasked:
            let own = recording.frames.filter { $0.stream == 1 }.flatMap { frame($0, on: 3).bytes }
            return Play(bytes: bytes + own)
        }
    }

    // MARK: Expectations

    var expectation: FaultExpectation {
        let whole = FaultExpectation(outcomes: [recording.outcome])
        switch fault {
        // nghttp2 with Debian's patch of 2024 allows eight CONTINUATION frames, and counts one per piece.
        case .drip:
            let isContinued = recording.frames.contains { $0.kind == Frame.Kind.continuation }
            return FaultExpectation(outcomes: [recording.outcome], mustSucceed: !isContinued)
        // The client may detect the broken connection before it has delivered the response.
        case .unasked: return whole
        case .cut(let count), .reset(let count), .stall(let count):
            return recording.isWhole(before: count) ? whole : FaultExpectation()
        case .damage:
            // Old libcurl versions sometimes accept the bytes received before they aborted the connection as complete.
            let ends: [FrameReader.End] = [.stream, .length] + (CurlQuirks.hidesResets ? [.invalidFrame] : [])
            let readings = ends.compactMap { FrameReader.read(play.bytes, to: method, until: $0) }
            return FaultExpectation(outcomes: readings.flatMap { $0.outcomes(to: method, decoded: recording.decoded) })
        case .goAway(let index, let last, let code, let closes):
            let isWhole = recording.isWhole(before: recording.boundaries[index])
            if isWhole { return whole }
            // Nothing may come between the frames of a head.
            let isInHead = index < recording.frames.count && recording.frames[index].kind == Frame.Kind.continuation
            if closes || isInHead { return FaultExpectation() }
            // RFC 9113, section 6.8: streams up to the last one continue. SETTINGS must come first.
            return FaultExpectation(
                outcomes: last >= 1 ? [recording.outcome] : [], mustSucceed: index > 0 && last >= 1 && code == 0)
        case .resetStream(let index, _, _):
            return recording.isWhole(before: recording.boundaries[index]) ? whole : FaultExpectation()
        }
    }

    /// If the server received the request again, it responded with the complete recording.
    var outcomeOfRepetition: FaultOutcome? { recording.outcome }

    static func all(_ recordings: [FrameRecording]) -> [FrameCase] {
        var cases: [FrameCase] = []
        for recording in recordings {
            func add(_ fault: Fault) {
                cases.append(FrameCase(number: cases.count, recording: recording, fault: fault))
            }
            add(.drip)
            add(.unasked)
            for index in recording.boundaries.indices {
                for code: UInt32 in [0, 1, 2, 7, 8, 11, 0xFFFF_FFFF] {
                    for flag in [false, true] {
                        for last: UInt32 in [0, 1, 0x7FFF_FFFF] {
                            add(.goAway(before: index, last: last, code: code, closes: flag))
                        }
                        add(.resetStream(before: index, code: code, goesOn: flag))
                    }
                }
            }
            for position in 0...recording.bytes.count {
                // For a very long recording, every 61st byte, and those around the beginnings of frames.
                let isNear = recording.boundaries.contains { abs($0 - position) < 16 }
                guard recording.bytes.count < 2_000 || isNear || position % 61 == 0 else { continue }
                for fault in [Fault.cut(position), .reset(position), .stall(position)] { add(fault) }
                guard position < recording.bytes.count else { break }
                let byte = recording.bytes[position]
                let values = Set([0, 10, 13, 255] + (0..<8).map { byte ^ (1 << UInt8($0)) }).subtracting([byte])
                for value in values.sorted() { add(.damage(at: position, to: value)) }
            }
        }
        return cases
    }
}
