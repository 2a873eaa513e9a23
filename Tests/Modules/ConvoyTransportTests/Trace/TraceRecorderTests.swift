import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// The trace lines for heads that arrive in any pieces.
@Suite struct TraceRecorderTests {
    private static let head = """
        GET http://ada:s3cret@h/p?token=s3cret&x=y HTTP/1.1\r
        Host: h\r
        Authorization: Bearer s3cret\r
        proxy-authorization: Basic s3cret\r
        COOKIE : a=s3cret\r
        X-Own:s3cret\r
        X-Api-Key: s3cret\r
        Referer: /login?code=s3cret\r
        Link: <http://a:s3cret@i/?sig=s3cret>\r
        :path: /p?token=s3cret\r
        :authority: h\r
        Set-Cookie s3cret\r
        Set-Cookie: a=1\r
         s3cret\r
        \ts3cret\r
        X-Plain: yes\r
         folded\r
        \r

        """

    /// Returns the lines for a head that arrives in pieces of the given sizes.
    private func lines(_ bytes: [UInt8], pieces: [Int], showsSecrets: Bool = false) -> [TraceLine] {
        let heard = Locked<[TraceLine]>([])
        let queue = DispatchQueue(label: "Convoy.Trace")
        let trace = ConnectionTrace(showsSecrets: showsSecrets, on: queue) { line in heard.withLock { $0.append(line) } }
        var recorder = TraceRecorder(trace, transfer: 1, secrets: SecretClassifier(fields: ["x-own"]))
        var rest = bytes[...]
        var next = pieces[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(next.popFirst() ?? rest.count))
            rest = rest.dropFirst(piece.count)
            piece.withUnsafeBytes { recorder.take(.sentHead, $0) }
        }
        queue.sync {}
        return heard.withLock { $0 }
    }

    @Test func `secrets are masked, and the rest is shown`() {
        let texts = lines(Array(Self.head.utf8), pieces: []).map(\.text)
        #expect(
            texts == [
                "GET http://***@h/p?token=***&x=y HTTP/1.1", "Host: h", "Authorization: ***", "proxy-authorization: ***",
                "COOKIE : ***", "X-Own: ***", "X-Api-Key: ***", "Referer: /login?code=***", "Link: <http://***@i/?sig=***>",
                ":path: /p?token=***", ":authority: h", "(malformed line of 17 bytes)", "Set-Cookie: ***", " ***", " ***",
                "X-Plain: yes", " folded", "",
            ])
    }

    @Test func `a head in pieces is traced like a complete one`() {
        let bytes = Array(Self.head.utf8)
        let whole = lines(bytes, pieces: [])
        var random = SplitMix64.printingSeed()
        for _ in 0..<200 {
            let pieces = (0..<bytes.count).map { _ in Int.random(in: 1...40, using: &random) }
            #expect(lines(bytes, pieces: pieces) == whole)
        }
        #expect(lines(bytes, pieces: bytes.map { _ in 1 }) == whole)
    }

    @Test func `an incomplete line is not shown`() {
        let cut = Array("GET / HTTP/1.1\r\nAuthorization: Bearer s3cr".utf8)
        #expect(lines(cut, pieces: []).map(\.text) == ["GET / HTTP/1.1"])
    }

    @Test func `secrets are shown on request`() {
        let texts = lines(Array(Self.head.utf8), pieces: [], showsSecrets: true).map(\.text)
        #expect(texts.filter { $0.contains("s3cret") }.count == 12 && texts[2] == "Authorization: Bearer s3cret")
    }

    @Test(arguments: [
        "Uses proxy env variable https_proxy == 'http://user:s3cret@proxy'", "h2h3 [authorization: Bearer s3cret]",
        "[HTTP/2] [1] [authorization: Bearer s3cret]", "Server auth using Basic with user 's3cret'",
        "Issue another request to this URL: 's3cret'", "Added cookie a=\"s3cret\"", "something new of s3cret",
    ])
    func `unknown libcurl messages are not passed on`(message: String) {
        let heard = Locked<[String]>([])
        let queue = DispatchQueue(label: "Convoy.Trace")
        let trace = ConnectionTrace(on: queue) { line in heard.withLock { $0.append(line.text) } }
        var recorder = TraceRecorder(trace, transfer: 1, secrets: .standard)
        for text in [message, "  Trying 127.0.0.1:80..."] {
            Array("\(text)\n".utf8).withUnsafeBytes { recorder.take(.message, $0) }
        }
        queue.sync {}
        #expect(heard.withLock { $0 } == ["Trying 127.0.0.1:80..."])
    }
}
