import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

let exampleURL = URL(string: "http://example.com/path") ?? URL(fileURLWithPath: "/")

func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

func response(_ status: Int = 200, _ headers: [String: String] = [:]) throws -> HTTPURLResponse {
    try #require(
        HTTPURLResponse(url: exampleURL, statusCode: status, httpVersion: "HTTP/1.1", headerFields: headers))
}

func response(_ status: Int = 200, type: String) throws -> HTTPURLResponse {
    try response(status, ["Content-Type": type])
}

func bytes(_ text: String) -> Data { Data(text.utf8) }

func text(_ data: Data?) -> String? { data.map { String(decoding: $0, as: UTF8.self) } }

/// The error that a body throws, as the `NSError` that it is.
func failure(_ body: () throws -> Any?) -> NSError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as NSError
    }
}

func reason(_ error: NSError?) -> RequestSerializationFailure? {
    error?.userInfo[URLRequestSerializationErrorKey.reason] as? RequestSerializationFailure
}

func limit(_ error: NSError?) -> ResponseLimitExceeded? {
    error?.userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
}

func underlying(_ error: NSError?) -> NSError? { error?.userInfo[NSUnderlyingErrorKey] as? NSError }

/// Everything that a stream gives, read in blocks of a size; nil when it fails. It is not closed, to be looked at.
func readAll(_ stream: InputStream, block: Int = 1000) -> Data? {
    stream.open()
    var result = Data()
    var buffer = [UInt8](repeating: 0, count: block)
    while true {
        let count = stream.read(&buffer, maxLength: block)
        if count == 0 { return result }
        if count < 0 { return nil }
        result.append(contentsOf: buffer[..<count])
    }
}

/// A directory of its own that goes away with the test.
final class TemporaryDirectory {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-\(UInt64.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func file(_ name: String, _ content: Data) throws -> URL {
        let file = url.appendingPathComponent(name)
        try content.write(to: file)
        return file
    }
}

/// Numbers that are random and the same in every run (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
