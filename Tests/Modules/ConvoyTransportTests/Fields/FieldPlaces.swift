import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The parts of a response that contain fields. Their parsers receive the fields line by line, as from libcurl.
enum FieldPlace: CaseIterable, Sendable, CustomTestStringConvertible {
    case final
    case interim
    case trailers
    case tunnel
    case stored

    var testDescription: String { "\(self)" }

    /// The result of parsing field lines.
    enum Reading: Equatable {
        /// The fields, as `name: value`.
        case fields([String])
        case refused(String)
    }

    static func lines(_ text: String) -> [[UInt8]] { lines(Array(text.utf8)) }

    static func lines(_ text: [UInt8]) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var rest = text[...]
        while !rest.isEmpty {
            let end = rest.firstIndex(of: 0x0A).map { $0 + 1 } ?? rest.endIndex
            lines.append(Array(rest[..<end]))
            rest = rest[end...]
        }
        return lines
    }

    /// Passes complete lines until one is rejected, and returns the last step.
    static func feed(_ text: [UInt8], to parser: inout HeadParser) -> HeadParser.Step {
        var step = HeadParser.Step.more
        for line in lines(text) {
            step = line.withUnsafeBytes { parser.take($0) }
            if case .refused = step { return step }
        }
        return step
    }

    static func head(_ parser: HeadParser) throws -> ResponseHead {
        ResponseHead(
            place: .url(try #require(URL(string: "http://a.test/"))), statusCode: parser.statusCode,
            contentLength: parser.contentLength, isEncoded: !parser.contentEncodings.isEmpty, bytes: parser.bytes)
    }

    /// Parses field lines, each with its line ending, in this part of a response.
    func read(_ fields: String, status: Int = 200) throws -> Reading {
        var parser = HeadParser()
        func text(_ start: String) -> [UInt8] { Array((start + "\r\n" + fields + "\r\n").utf8) }
        switch self {
        case .final, .stored:
            if case .refused(let reason) = Self.feed(text("HTTP/1.1 \(status) OK"), to: &parser) { return .refused(reason) }
            var head = try Self.head(parser)
            if self == .stored {
                let request = URLRequest(url: head.url)
                head = ResponseHead(head.forCache, of: TransferRequest(request), length: 0, use: .fresh)
            }
            return .fields(head.fields.map { "\($0.name): \($0.value)" })
        case .interim:
            if case .refused(let reason) = Self.feed(text("HTTP/1.1 103 Early"), to: &parser) { return .refused(reason) }
            return .fields(try Self.head(parser).fields.map { "\($0.name): \($0.value)" })
        case .trailers:
            #expect(Self.feed(Array("HTTP/1.1 200 OK\r\n\r\n".utf8), to: &parser) == .whole)
            if case .refused(let reason) = Self.feed(Array(fields.utf8), to: &parser) { return .refused(reason) }
            return .fields([])
        case .tunnel:
            var answer = ConnectResponse()
            for line in Self.lines(text("HTTP/1.1 407 No")) {
                if let reason = line.withUnsafeBytes({ answer.take($0) }) { return .refused(reason) }
            }
            return .fields(answer.challenges)
        }
    }
}
