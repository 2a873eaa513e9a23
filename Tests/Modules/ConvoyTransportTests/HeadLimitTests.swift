import Testing

@testable import ConvoyTransport

/// The limits of response heads. Heads up to the limits are accepted.
@Suite struct HeadLimitTests {
    private func take(_ line: String, _ parser: inout HeadParser) -> HeadParser.Step {
        Array(line.utf8).withUnsafeBytes { parser.take($0) }
    }

    /// Returns a field with the given number of bytes, including its line ending.
    private func field(_ count: Int) -> String { "X: " + String(repeating: "a", count: count - 5) + "\r\n" }

    @Test func `all heads of a response together may have at most 256 KiB`() {
        for hasInterim in [false, true] {
            for excess in [0, 1] {
                var parser = HeadParser()
                var rest = 256 << 10
                if hasInterim {
                    for line in ["HTTP/1.1 103 Early Hints\r\n", field(100_000), "\r\n"] {
                        #expect(take(line, &parser) == (line == "\r\n" ? .interim : .more))
                        rest -= line.utf8.count
                    }
                }
                let status = "HTTP/1.1 200 OK\r\n"
                #expect(take(status, &parser) == .more)
                rest -= status.utf8.count + 2
                #expect(take(field(rest), &parser) == .more)
                #expect(take(excess == 0 ? "\r\n" : field(10), &parser) == (excess == 0 ? .whole : tooLarge))
            }
        }
    }

    private let tooLarge = HeadParser.Step.refused("The response's header is larger than 262144 bytes.")

    @Test func `at most 32 interim heads may precede the final one`() {
        for count in [32, 33] {
            var parser = HeadParser()
            for _ in 0..<count {
                #expect(take("HTTP/1.1 103 Early Hints\r\n", &parser) == .more)
                #expect(take("\r\n", &parser) == .interim)
            }
            let last = take("HTTP/1.1 200 OK\r\n", &parser)
            #expect((last == .more) == (count == 32))
        }
    }

    @Test func `an interim head must be followed by a status line`() {
        var parser = HeadParser()
        for line in ["HTTP/1.1 103 Early Hints\r\n", "Link: x\r\n", "\r\n"] { _ = take(line, &parser) }
        #expect(take("tTTP/1.1 200 OK\r\n", &parser) == .refused("The response does not begin with a status line."))
    }

    @Test func `a field line that looks like a status line does not begin another head`() {
        var parser = HeadParser()
        for line in ["HTTP/1.1 200 OK\r\n", "Content-Length: 4\r\n"] { #expect(take(line, &parser) == .more) }
        #expect(
            take("HTTP/1.1 404: x\r\n", &parser)
                == .refused("The response's header contains an invalid field name: \"HTTP/1.1 404\"."))
        #expect(parser.statusCode == 200 && parser.contentLength == 4)
    }

    @Test func `half of an empty line does not end the head`() {
        var parser = HeadParser()
        for line in ["HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n", "\r"] {
            #expect(take(line, &parser) == .more)
        }
        #expect(!parser.isWhole)
    }

    @Test func `a line without a line ending is parsed`() {
        for (line, length) in [("Content-Length: 41", 41), ("content-length:5\n", 5), ("Content-Length: 7 \r\n", 7)] {
            var parser = HeadParser()
            #expect(take("HTTP/1.1 200 OK\r\n", &parser) == .more && take(line, &parser) == .more)
            #expect(parser.contentLength == Int64(length))
        }
        for line in ["content-length:", "Content-Length:\r", "Content-Length: 4\r\r\n"] {
            var parser = HeadParser()
            #expect(take("HTTP/1.1 200 OK\r\n", &parser) == .more)
            #expect(take(line, &parser) == .refused("The Content-Length is not a number or too large."))
        }
    }

    @Test(arguments: [("0", 0), ("7", 7), ("1234567890", 1_234_567_890), ("0012", 12), ("\(Int64.max)", Int64.max)])
    func `a Content-Length is parsed to its last digit`(text: String, length: Int64) {
        var parser = HeadParser()
        #expect(take("HTTP/1.1 200 OK\r\n", &parser) == .more)
        #expect(take("Content-Length: \(text)\r\n", &parser) == .more)
        #expect(parser.contentLength == length)
    }

    @Test func `a proxy's challenges are read from the first 16 KiB of its head`() {
        let (status, challenge) = ("HTTP/1.1 407 No\r\n", "Proxy-Authenticate: Basic\r\n")
        for excess in [0, 1] {
            var answer = ConnectResponse()
            let rest = field((16 << 10) - (status + challenge).utf8.count + excess)
            for line in [status, rest, challenge] { #expect(Array(line.utf8).withUnsafeBytes { answer.take($0) } == nil) }
            #expect(answer.challenges == (excess == 0 ? ["Basic"] : []))
        }
    }

    @Test func `all trailers together may have at most 64 KiB`() {
        var parser = HeadParser()
        for line in ["HTTP/1.1 200 OK\r\n", "\r\n"] { _ = take(line, &parser) }
        #expect(take(field(32 << 10), &parser) == .trailer && take(field(32 << 10), &parser) == .trailer)
        #expect(take("X", &parser) == .refused("The response's trailers are larger than 65536 bytes."))
    }
}
