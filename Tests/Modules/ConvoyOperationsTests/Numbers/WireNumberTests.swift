import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that numbers and dates of any size from a server neither crash the program nor are trusted.
@Suite struct WireNumberTests {
    static let years = ["-9223372036854775808", "9223372036854775807", "99999999999999999999", "-1", "10000", "0"]
    static let content = PatternBytes.data(count: 200_000)

    let server: TestServer
    init() throws { server = try TestServer() }

    private static func date(_ year: String) -> String { "Sun, 06 Nov \(year) 08:49:37 GMT" }

    private func retrying(_ retryAfter: String, _ change: (inout RetryPolicy) -> Void = { _ in }) throws -> Probe {
        server.route("GET", "/x", inTurn: [.status(503).header("Retry-After", retryAfter), .text("at last")])
        let probe = Probe(server.url("/x"))
        var policy = RetryPolicy(maximumRetryCount: 1)
        policy.initialDelay = 0.01
        policy.budget = nil
        change(&policy)
        probe.operation.retryPolicy = policy
        RequestOperationQueue().addOperation(probe.operation)
        _ = try #require(probe.outcome())
        return probe
    }

    @Test(arguments: years + ["-9223372036854775808", "-1", "1e400", "NaN", "٣", "", "Sun, 99 Nov 1994 99:99:99 GMT"])
    func `an invalid Retry-After is ignored`(value: String) throws {
        let text = Self.years.contains(value) ? Self.date(value) : value
        #expect(try retrying(text).operation.responseString == "at last")
    }

    @Test(arguments: ["4294967296", "9223372036854775807", "9223372036854775808", String(repeating: "9", count: 400)])
    func `a Retry-After that is too long prevents a retry, with any number of digits`(value: String) throws {
        #expect(try retrying(value).operation.retryCount == 0)
        #expect(server.requests.count == 1)
    }

    @Test(arguments: ["9223372036854775807", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
    func `an operation that waits for a long Retry-After waits until it is cancelled`(value: String) throws {
        server.route("GET", "/x", .status(503).header("Retry-After", value))
        let probe = Probe(server.url("/x"))
        var policy = RetryPolicy(maximumRetryCount: 1)
        policy.maximumRetryAfter = .infinity
        policy.budget = nil
        probe.operation.retryPolicy = policy
        let waiting = Signal()
        probe.operation.keepObserving(.isExecuting) { if $1.oldValue { waiting.fire() } }
        RequestOperationQueue().addOperation(probe.operation)
        #expect(waiting.wait())
        probe.operation.cancel()
        #expect(probe.outcome() == Probe.cancelled)
        #expect(server.requests.count == 1)
    }

    /// Pauses a download in its first part and resumes it.
    private func pausedDownload(_ headers: [(String, String)]) throws -> Probe {
        let gate = TestServer.Gate()
        server.route("GET", "/file") { request in
            var response = TestServer.Response.bytes(Self.content)
            for (name, value) in headers { response = response.header(name, value) }
            return request.headers["X-Second"] == nil ? response.heldBody(by: gate, afterBytes: 50_000) : response
        }
        let probe = Probe(server.url("/file"))
        probe.operation.onFirstBytes { [operation = probe.operation] in
            operation.pause()
            operation.resume()
            gate.open()
        }
        probe.operation.start()
        _ = try #require(probe.outcome())
        return probe
    }

    @Test(arguments: years, ["Date", "Last-Modified"])
    func `an invalid date is not a validator`(year: String, field: String) throws {
        let other = field == "Date" ? "Last-Modified" : "Date"
        let sound = field == "Date" ? "Sun, 06 Nov 1994 08:49:37 GMT" : "Mon, 06 Nov 2023 08:49:37 GMT"
        let probe = try pausedDownload([(field, Self.date(year)), (other, sound)])
        #expect(probe.operation.responseData == Self.content)
        #expect(server.requests.allSatisfy { $0.headers["Range"] == nil })
    }

    @Test(arguments: years)
    func `two invalid dates do not form a validator`(year: String) throws {
        let probe = try pausedDownload([("Date", Self.date("9999")), ("Last-Modified", Self.date(year))])
        #expect(probe.operation.responseData == Self.content)
        #expect(server.requests.allSatisfy { $0.headers["Range"] == nil })
    }
}

/// Lengths and ranges at the limits of integers.
@Suite struct WireLengthTests {
    static let content = PatternBytes.data(count: 200_000)
    let server: TestServer
    init() throws { server = try TestServer() }

    @Test(arguments: [Int.max, .max - 1, 1 << 62], [false, true])
    func `an enormous announced length fails without reserving memory`(length: Int, isFile: Bool) throws {
        server.route("GET", "/x", .bytes(Self.content).contentLength(length).closing())
        let directory = try TemporaryDirectory()
        let probe = Probe(server.url("/x"), output: isFile ? FileOutputStream(fileURL: directory.file("x")) : nil)
        let progress = probe.operation.progress
        probe.operation.start()
        _ = try #require(probe.outcome())
        #expect(probe.error?.code == (isFile ? .networkConnectionLost : .dataLengthExceedsMaximum))
        #expect(progress.fractionCompleted < 1)
    }

    @Test(arguments: ["9223372036854775808", "18446744073709551616", "99999999999999999999999", "-1", "1e3"])
    func `a response with an invalid length is invalid`(length: String) throws {
        server.route("GET", "/x", .raw("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nhello"))
        let probe = Probe(server.url("/x"))
        probe.operation.start()
        #expect(probe.outcome()?.count == 2 && probe.error?.code == .badServerResponse)
    }

    @Test func `a length can have leading zeros`() throws {
        server.route("GET", "/x", .raw("HTTP/1.1 200 OK\r\nContent-Length: 0000000000000000000000005\r\n\r\nhello"))
        let probe = Probe(server.url("/x"))
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded && probe.operation.responseString == "hello")
    }

    @Test(arguments: [
        "bytes FIRST-9223372036854775807/*", "bytes FIRST-9223372036854775806/9223372036854775807",
        "bytes FIRST-9223372036854775807/9223372036854775807", "bytes FIRST-9223372036854775807/9223372036854775808",
        "bytes 9223372036854775807-9223372036854775807/*", "bytes 9223372036854775808-9223372036854775809/*",
        "bytes -9223372036854775808-199999/200000", "bytes FIRST--9223372036854775808/200000",
        "bytes FIRST-199999/9223372036854775808", "bytes FIRST-199999/-9223372036854775808", "bytes */9223372036854775807",
    ])
    func `a range at the maximum offset yields the correct bytes or an error`(range: String) throws {
        let gate = TestServer.Gate()
        server.route("GET", "/file") { request in
            let whole = TestServer.Response.bytes(Self.content).header("ETag", "\"v1\"")
            guard let asked = request.headers["Range"], let first = Int(asked.dropFirst(6).dropLast()) else {
                return gate.isOpen ? whole : whole.heldBody(by: gate, afterBytes: 50_000)
            }
            return .bytes(Self.content.dropFirst(first), status: 206).header("ETag", "\"v1\"")
                .header("Content-Range", range.replacingOccurrences(of: "FIRST", with: "\(first)"))
        }
        let probe = Probe(server.url("/file"))
        probe.operation.onFirstBytes { [operation = probe.operation] in
            operation.pause()
            operation.resume()
            gate.open()
        }
        probe.operation.start()
        #expect(probe.outcome()?.count == 2)
        #expect(probe.operation.error != nil || probe.operation.responseData == Self.content)
    }
}
