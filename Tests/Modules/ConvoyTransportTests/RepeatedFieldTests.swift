import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests of heads with very many fields, and of fields whose bytes come from a server.
@Suite struct RepeatedFieldTests {
    private func head(_ count: Int, _ name: String = "a") throws -> ResponseHead {
        ResponseHead(
            url: try #require(URL(string: "http://host/")), statusCode: 200, headers: (0..<count).map { _ in (name, "") })
    }

    /// Quadratic growth would take 64 times as long, and linear growth 8 times, which leaves a margin for a busy
    /// machine.
    @Test func `the time for a repeated field grows linearly with its number of lines`() throws {
        let (small, large) = (try head(5_000), try head(40_000))
        let works: [(String, (ResponseHead) -> Int)] = [
            ("joined", { $0["A"]?.utf8.count ?? 0 }), ("lines", { $0.bytes(of: "A").count }),
            ("fields", { $0.fields.count }),
            // Foundation's value is created only once per head, so use a copy.
            ("response", { $0.copied.urlResponse?.allHeaderFields.count ?? 0 }),
        ]
        for (name, work) in works {
            #expect(work(large) > 0, "\(name)")
            let (one, eight) = (leastThreadTime { _ = work(small) }, leastThreadTime { _ = work(large) })
            #expect(eight < one * 24, "\(name): \(one) ns, and \(eight) ns for eight times as many")
        }
    }

    @Test func `values of a repeated field are joined, without those of longer names`() throws {
        let head = ResponseHead(
            url: try #require(URL(string: "http://host/")), statusCode: 200,
            headers: [("A", "1"), ("b", "x"), ("Ab", "y"), ("a", ""), ("A", "é, 3")])
        #expect(head["a"] == "1, , é, 3")
        #expect(head.urlResponse?.value(forHTTPHeaderField: "A") == "1, , é, 3")
        #expect(head.bytes(of: "a", limit: 2) == [Array("1".utf8), []])
    }

    @Test(arguments: [
        (["text/html"], "text/html"),
        (["text/html", "text/html"], "text/html"),
        (["text/html; charset=utf-8", "text/html; charset=utf-8", "text/html; charset=utf-8"], "text/html; charset=utf-8"),
        (["text/html", "text/plain"], "text/html, text/plain"),
        (["text/html", "text/html", "text/plain"], "text/html, text/plain"),
        (["", "text/html"], ", text/html"),
    ])
    func `equal Content-Type lines are merged into one`(lines: [String], expected: String) throws {
        let head = ResponseHead(
            url: try #require(URL(string: "http://host/")), statusCode: 200, headers: lines.map { ("Content-type", $0) })
        #expect(head["Content-Type"] == expected)
        #expect(head.urlResponse?.value(forHTTPHeaderField: "Content-Type") == expected)
        #expect(head.values(of: "Content-Type") == lines)
        let other = ResponseHead(
            url: try #require(URL(string: "http://host/")), statusCode: 200, headers: lines.map { ("Content-Types", $0) })
        #expect(other["content-types"] == lines.joined(separator: ", "))
    }

    @Test func `a field with different or unsendable values cannot be echoed`() throws {
        let url = try #require(URL(string: "http://host/"))
        for (values, expected) in [
            (["\"a\""], "\"a\""), (["\"a\"", "\"a\""], "\"a\""), (["\"a\"", "\"b\""], nil), ([""], nil), ([], nil),
            (["\"\u{1}\""], nil), (["\"a\u{7F}\""], nil), (["é"], "é"),
        ] as [([String], String?)] {
            let head = ResponseHead(url: url, statusCode: 200, headers: values.map { ("ETag", $0) })
            #expect(head.echoedValue(of: "etag")?.text == expected, "\(values)")
        }
    }

    @Test func `server bytes are sent back unchanged, and only in fields that echo them`() throws {
        func line(_ name: String, _ value: String) throws -> [UInt8]? {
            let header = try RequestHeader(fields: [name: value])
            var next = header.lines
            while let line = next?.pointee {
                next = line.next
                let bytes = Array(UnsafeRawBufferPointer(start: line.data, count: strlen(line.data)))
                if bytes.starts(with: name.utf8) { return Array(bytes.dropFirst(name.utf8.count + 2)) }
            }
            return nil
        }
        for name in ["If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Last-Event-ID"] {
            #expect(try line(name, "\"\u{10FEE9}\"") == [0x22, 0xE9, 0x22], "\(name)")
            #expect(try line(name, "\"é\"") == Array("\"é\"".utf8), "\(name)")
            #expect(throws: URLError.self, "\(name)") { try line(name, "\"\u{1}\u{10FEE9}\"") }
        }
        #expect(try line("X-Own", "\u{10FEE9}") == Array("\u{10FEE9}".utf8))
    }
}

extension ResponseHead {
    /// Returns a head that has not been queried yet.
    fileprivate var copied: ResponseHead {
        ResponseHead(url: url, statusCode: statusCode, headers: fields.map { ($0.name, $0.value) })
    }
}
