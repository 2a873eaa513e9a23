import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTestServer

struct ServedFileTests {
    private let data = PatternBytes.data(count: 1000)
    private let date = Date(timeIntervalSince1970: 784_111_777.5)

    private func answer(
        _ headers: [String], method: String = "GET", ranges: TestServer.RangeBehaviour = .honoured
    ) throws -> RawClient.Response {
        let server = try TestServer()
        server.serve(data, at: "/f", etag: "\"v1\"", lastModified: date, ranges: ranges)
        return try RawClient(port: server.port).exchange(method, "/f", headers: headers)
    }

    @Test func `a file is served with its validators, and without a body for HEAD`() throws {
        let response = try answer([])
        #expect(response.status == 200 && response.body == data)
        #expect(response["ETag"] == "\"v1\"" && response["Accept-Ranges"] == "bytes")
        #expect(response["Last-Modified"] == "Sun, 06 Nov 1994 08:49:37 GMT")
        let head = try answer([], method: "HEAD")
        #expect(head.status == 200 && head["Content-Length"] == "1000" && head.body.isEmpty)
        #expect(try answer([], method: "DELETE").status == 405)
    }

    @Test(arguments: [
        ("0-0", 0..<1), ("10-19", 10..<20), ("990-", 990..<1000), ("-5", 995..<1000), ("-5000", 0..<1000),
        ("999-99999999999999999999", 999..<1000),
    ])
    func `a single range is answered with exactly its bytes`(field: String, range: Range<Int>) throws {
        let response = try answer(["Range: bytes=\(field)"])
        #expect(response.status == 206 && response.body == data[range])
        #expect(response["Content-Range"] == "bytes \(range.lowerBound)-\(range.upperBound - 1)/1000")
    }

    @Test(arguments: ["1000-", "5000-6000", "-0"])
    func `a range outside the file is answered with 416`(field: String) throws {
        let response = try answer(["Range: bytes=\(field)"])
        #expect(response.status == 416 && response["Content-Range"] == "bytes */1000")
    }

    @Test(arguments: ["bytes=0-1,5-6", "lines=0-1", "bytes=5-2", "bytes=x-"])
    func `a file is served in full unless the request has one valid range`(field: String) throws {
        #expect(try answer(["Range: \(field)"]).status == 200)
    }

    @Test func `If-Range is honoured only if the validator matches strongly`() throws {
        func status(_ condition: String) throws -> Int { try answer(["Range: bytes=5-", "If-Range: \(condition)"]).status }
        #expect(try status("\"v1\"") == 206)
        #expect(try status("\"v2\"") == 200)
        #expect(try status("W/\"v1\"") == 200)
        #expect(try status("Sun, 06 Nov 1994 08:49:37 GMT") == 206)
        #expect(try status("Sun, 06 Nov 1994 08:49:38 GMT") == 200)
    }

    @Test func `preconditions lead to 304 and 412 in the order of RFC 9110, section 13.2.2`() throws {
        #expect(try answer(["If-None-Match: \"v1\""]).status == 304)
        #expect(try answer(["If-None-Match: \"a,b\", W/\"v1\""]).status == 304)
        #expect(try answer(["If-None-Match: *"]).status == 304)
        #expect(try answer(["If-None-Match: \"v2\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]).status == 200)
        #expect(try answer(["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]).status == 304)
        #expect(try answer(["If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"]).status == 200)
        #expect(try answer(["If-Match: \"v1\""]).status == 200)
        #expect(try answer(["If-Match: W/\"v1\""]).status == 412)
        #expect(try answer(["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT"]).status == 412)
        #expect(try answer(["If-None-Match: \"v1\"", "Range: bytes=0-1"]).status == 304)
    }

    @Test func `ranges are mishandled as configured by the test`() throws {
        let range = ["Range: bytes=100-199"]
        #expect(try answer(range, ranges: .ignored).status == 200)
        let shifted = try answer(range, ranges: .wrongOffset(by: -50))
        #expect(shifted["Content-Range"] == "bytes 50-199/1000" && shifted.body == data[50..<200])
        let total = try answer(range, ranges: .wrongTotal)
        #expect(total["Content-Range"] == "bytes 100-199/1001" && total.body == data[100..<200])
        #expect(try answer(range, ranges: .unsatisfiable).status == 416)
        let bare = try answer(range, ranges: .noContentRange)
        #expect(bare.status == 206 && bare["Content-Range"] == nil && bare.body == data[100..<200])
        let short = try answer(range, ranges: .atMost(10))
        #expect(short["Content-Range"] == "bytes 100-109/1000" && short.body == data[100..<110])
    }

    @Test func `a file can be replaced between requests and interrupted in one of them`() throws {
        let server = try TestServer()
        server.serve(data, at: "/f", etag: "\"v1\"") { request, response in
            request.headers["Range"] == nil ? response.resets(afterBytes: 400) : response
        }
        let first = try RawClient(port: server.port)
        try first.request("GET", "/f")
        #expect(throws: RawClient.Failure.reset) { _ = try first.response() }
        let second = try RawClient(port: server.port)
        #expect(try second.exchange("GET", "/f", headers: ["Range: bytes=400-"]).body == data[400...])
        server.serve(Data("new".utf8), at: "/f", etag: "\"v2\"")
        let third = try second.exchange("GET", "/f", headers: ["Range: bytes=400-", "If-Range: \"v1\""])
        #expect(third.status == 200 && third.text == "new" && third["ETag"] == "\"v2\"")
    }

    @Test func `a pattern file has the right bytes at any offset and needs no memory`() throws {
        let server = try TestServer()
        let size = 1 << 40
        server.servePattern(count: size, at: "/big", etag: "\"big\"")
        let response = try RawClient(port: server.port).exchange(
            "GET", "/big", headers: ["Range: bytes=\(size - 100_000)-"])
        #expect(response.body.count == 100_000 && response["Content-Range"]?.hasSuffix("/\(size)") == true)
        #expect(response.body.withUnsafeBytes { PatternBytes.matches($0, offset: size - 100_000) })
    }
}
