import ConvoyTestSupport
import Foundation

/// A recording that is replayed with one fault.
struct FaultCase: Sendable, CustomStringConvertible {
    enum Fault: Sendable {
        /// The server closes the connection after this number of bytes.
        case cut(Int)
        /// The server resets the connection after this number of bytes.
        case reset(Int)
        /// The server sends nothing after this number of bytes.
        case stall(Int)
        /// The bytes are sent one by one.
        case drip
        /// The response is sent twice at once.
        case doubled
        /// One byte is changed. After the response, the server either closes the connection or waits.
        case damage(at: Int, to: UInt8, waits: Bool)
    }

    let number: Int
    let recording: RecordedResponses
    /// The index of the response with the fault in the recording.
    let exchange: Int
    let fault: Fault

    /// The response with the fault.
    var response: RecordedResponse { recording.responses[exchange] }

    var description: String {
        let place =
            switch fault {
            case .cut(let count), .reset(let count), .stall(let count): response.context(of: count)
            case .damage(let position, _, _): response.context(of: position)
            case .drip, .doubled: ""
            }
        return "case \(number), \(recording.recording.name), response \(exchange): \(fault) \(place)"
    }

    /// Returns the server's response to a request for one of the recording's targets, or for any other.
    func play(for target: String) -> Play {
        guard let index = recording.responses.firstIndex(where: { $0.exchange.target == target }) else {
            return Play(bytes: Self.notFound, isSound: true)
        }
        let other = recording.responses[index]
        guard index == exchange else {
            return Play(bytes: other.bytes, end: other.endsConnection ? .finish : .open, isSound: true)
        }
        let (bytes, sound) = (response.bytes, response.endsConnection ? Play.End.finish : .open)
        switch fault {
        case .cut(let count): return Play(bytes: Array(bytes[..<count]), end: .finish)
        case .reset(let count): return Play(bytes: Array(bytes[..<count]), end: .reset)
        case .stall(let count): return Play(bytes: Array(bytes[..<count]), end: .stall)
        case .drip: return Play(bytes: bytes, piece: 1, end: sound, isSound: true)
        // Nothing can follow a body that ends with the connection.
        case .doubled: return Play(bytes: response.endsConnection ? bytes : bytes + bytes, end: sound, isSound: true)
        case .damage(_, _, let waits): return Play(bytes: damaged, end: waits ? .open : .finish)
        }
    }

    /// The damaged bytes of the response.
    var damaged: [UInt8] {
        var bytes = response.bytes
        if case .damage(let position, let value, _) = fault { bytes[position] = value }
        return bytes
    }

    private static let notFound = Array("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone".utf8)
    private static let notFoundOutcome = FaultOutcome(status: 404, body: Array("none".utf8))

    // MARK: Expectations

    /// The outcomes allowed for the operation.
    var expectation: FaultExpectation {
        guard let last = recording.responses.last else { return FaultExpectation() }
        let whole = last.outcome, isLast = exchange == recording.responses.count - 1
        switch fault {
        case .drip, .doubled: return FaultExpectation(outcomes: [whole], mustSucceed: true)
        case .cut(let count):
            if count == response.bytes.count { return FaultExpectation(outcomes: [whole], mustSucceed: true) }
            // A body that ends with the connection cannot be distinguished from a shorter one.
            if isLast, response.isEndedByConnection, count >= response.headLength, response.exchange.decoded == nil {
                let body = Array(response.bytes[response.headLength..<count])
                return FaultExpectation(outcomes: [FaultOutcome(status: whole.status, body: body)], mustSucceed: true)
            }
            return unfinished(at: count, whole, isLast)
        case .reset(let count), .stall(let count): return unfinished(at: count, whole, isLast)
        case .damage(let position, _, let waits): return expectation(damagedAt: position, waits: waits)
        }
    }

    private func unfinished(at count: Int, _ whole: FaultOutcome, _ isLast: Bool) -> FaultExpectation {
        // The rest of a redirect's body is irrelevant, as is anything after the last chunk.
        let isEnough = isLast ? count >= response.endOfLastChunk : count >= response.headLength
        return FaultExpectation(outcomes: isEnough ? [whole] : [])
    }

    private func expectation(damagedAt position: Int, waits: Bool) -> FaultExpectation {
        let damaged = damaged, method = response.exchange.method
        var expectation = FaultExpectation()
        for leniency in MessageReader.Leniency.all {
            let reading = MessageReader.read(damaged, to: method, hasEnded: !waits, leniency)
            switch reading {
            case .response(let read): expectation.outcomes += outcomes(of: read)
            // The rest of a redirect's body is irrelevant.
            case .head(let read) where Self.isRedirect(read): expectation.outcomes += outcomesOfRedirect
            default: break
            }
        }
        let strict = MessageReader.read(damaged, to: method, hasEnded: !waits, .strict)
        if case .response(let read) = strict, FaultExpectation.isOrdinary(read.status), recording.responses.count == 1,
            read.values("content-encoding").isEmpty || read.body == response.rawBody
        {
            expectation.mustSucceed = true
        }
        return expectation
    }

    /// Returns the possible outcomes of a client that has parsed a response.
    private func outcomes(of read: MessageReader.Response) -> [FaultOutcome] {
        read.outcomes(to: response.exchange.method, decoded: response.exchange.decoded)
            + (Self.isRedirect(read) ? outcomesOfRedirect : [])
    }

    /// The outcomes of a damaged redirect, which may lead to any other response, or nowhere.
    private var outcomesOfRedirect: [FaultOutcome] { recording.responses.map(\.outcome) + [Self.notFoundOutcome] }

    private static func isRedirect(_ read: MessageReader.Response) -> Bool {
        (300..<400).contains(read.status) && !read.values("location").isEmpty
    }
}

extension MessageReader.Response {
    /// Returns the outcomes with which a client may interpret the response, if it follows no redirect.
    ///
    /// - Parameter decoded: The decoded body of the recording.
    func outcomes(to method: String, decoded: String?) -> [FaultOutcome] {
        var bodies = [body]
        let codings = values("content-encoding").joined(separator: ",").lowercased()
        if !codings.isEmpty, status != 206, method != "HEAD", !body.isEmpty {
            // Some bytes of the encoded body do not affect the decoded body, whose checksum is verified.
            let isKnown = ["gzip", "x-gzip", "deflate", "br", "zstd"].contains(codings)
            let right = decoded.map { Array($0.utf8) }
            if isKnown { bodies = right.map { [$0] } ?? [] } else if let right { bodies.append(right) }
        }
        return bodies.map { FaultOutcome(status: status, body: $0) }
    }
}

/// The outcome of an operation.
struct FaultOutcome: Equatable, Sendable, CustomStringConvertible {
    var status: Int
    var body: [UInt8]

    var description: String {
        "\(status) with \(body.count) bytes \(String(decoding: body.prefix(60), as: UTF8.self).debugDescription)"
    }
}

/// The allowed outcomes of an operation. It may also fail unless it must succeed.
struct FaultExpectation: Sendable {
    var outcomes: [FaultOutcome] = []
    var mustSucceed = false

    /// Returns whether a client can only deliver a response with this status.
    static func isOrdinary(_ status: Int) -> Bool {
        status >= 200 && !(300..<400).contains(status) && ![206, 401, 407, 408, 417, 421, 425].contains(status)
    }
}

/// A recording with the interpretation of its responses.
final class RecordedResponses: Sendable {
    let recording: Recording
    let responses: [RecordedResponse]

    init(_ recording: Recording) throws {
        self.recording = recording
        responses = try recording.exchanges.map { try RecordedResponse($0, of: recording.name) }
    }
}

struct RecordedResponse: Sendable {
    struct IsUnreadable: Error { var name: String }

    let exchange: Recording.Exchange
    let bytes: [UInt8]
    /// The end of the head, including interim heads.
    let headLength: Int
    /// The outcome that the response specifies.
    let outcome: FaultOutcome
    /// The body as it was sent, without the chunked framing.
    let rawBody: [UInt8]
    let isEndedByConnection: Bool
    /// Whether the server closes the connection after the response.
    let endsConnection: Bool
    /// The positions of bytes outside the body: those of the head and of the chunked framing.
    let framing: [Int]
    /// The end of the last, empty chunk's line; otherwise the end of the response.
    let endOfLastChunk: Int

    init(_ exchange: Recording.Exchange, of name: String) throws {
        self.exchange = exchange
        bytes = exchange.bytes
        guard case .response(let read) = MessageReader.read(bytes, to: exchange.method, hasEnded: true, .strict),
            read.rest == 0
        else { throw IsUnreadable(name: name) }
        rawBody = read.body
        outcome = FaultOutcome(status: read.status, body: exchange.decoded.map { Array($0.utf8) } ?? read.body)
        isEndedByConnection = read.isEndedByConnection
        endsConnection = bytes.starts(with: "HTTP/1.0".utf8) || read.values("connection").contains("close")
        var end = 0
        repeat {
            let start = end
            while !bytes[start..<end].suffix(4).elementsEqual([13, 10, 13, 10]) { end += 1 }
            if bytes[start + 9] != UInt8(ascii: "1") { break }
        } while true
        headLength = end
        var (framing, endOfLastChunk) = (Array(0..<end), bytes.count)
        if read.values("transfer-encoding") == ["chunked"] {
            var position = end
            while position < bytes.count {
                let line = position
                while bytes[position] != 10 { position += 1 }
                position += 1
                framing += line..<position
                let digits = String(decoding: bytes[line..<(position - 2)], as: UTF8.self)
                guard let size = Int(digits, radix: 16), size > 0 else {
                    framing += position..<bytes.count
                    endOfLastChunk = position
                    break
                }
                position += size
                framing += position..<(position + 2)
                position += 2
            }
        }
        (self.framing, self.endOfLastChunk) = (framing, endOfLastChunk)
    }

    /// Returns the bytes around a position.
    func context(of position: Int) -> String {
        let part = bytes[max(0, position - 24)..<min(bytes.count, position + 12)]
        return String(decoding: part, as: UTF8.self).debugDescription
    }
}

/// All cases for the recordings.
enum FaultCases {
    static func all(_ recordings: [RecordedResponses], everyFlip: Bool, using random: inout SplitMix64) -> [FaultCase] {
        var cases: [FaultCase] = []
        for recording in recordings {
            for (index, response) in recording.responses.enumerated() {
                func add(_ fault: FaultCase.Fault) {
                    cases.append(FaultCase(number: cases.count, recording: recording, exchange: index, fault: fault))
                }
                add(.drip)
                add(.doubled)
                for count in 0...response.bytes.count {
                    add(.cut(count))
                    if count == response.bytes.count { break }
                    add(.reset(count))
                    add(.stall(count))
                }
                for position in response.framing {
                    let byte = response.bytes[position]
                    let flips = everyFlip ? Array(0..<8) : [Int.random(in: 0..<8, using: &random)]
                    let values = Set(flips.map { byte ^ (1 << UInt8($0)) } + [0, 13, 10, 255]).subtracting([byte])
                    for value in values.sorted() {
                        for waits in [false, true] { add(.damage(at: position, to: value, waits: waits)) }
                    }
                }
            }
        }
        return cases
    }
}
