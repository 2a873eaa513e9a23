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

/// Returns the error thrown by a body, as an `NSError`.
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

/// Reads all bytes of a stream, in blocks of a given size; nil if it fails. The stream is not closed, so that it can be
/// examined.
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
