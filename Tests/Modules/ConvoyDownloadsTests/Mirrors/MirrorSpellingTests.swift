import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Tests that all spellings of a mirror's URL in documents and responses are equivalent.
struct MirrorSpellingTests {
    private let fixture: DownloadFixture

    init() throws { fixture = try DownloadFixture() }

    private var texts: [String] { Spelling.urls(Spelling.http, Spelling.loopback, port: Int(fixture.server.port), "/file") }

    @Test func `equivalent spellings of a URL in Link fields and Metalinks yield the same mirror`() throws {
        let head = ResponseHead(
            url: try #require(URL(string: "https://origin.example/x")), statusCode: 200,
            headers: texts.map { ("Link", "<\($0)>; rel=duplicate") })
        #expect(MirrorLinks(head).mirrors.map { Target($0.url) } == [Target(fixture.server.url("/file"))])
        let places = texts.map { "<url>\($0)</url>" }.joined()
        let document = """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="x">\(places)</file></metalink>
            """
        let mirrors = try #require(try Metalink(parsing: Data(document.utf8)).files.first).mirrors
        #expect(Set(mirrors.map { Target($0.url) }) == [Target(fixture.server.url("/file"))])
        for text in ["hTTp://user@h/x", "HTTP://h\\@evil/x", "FTP://h/x", "HTTP:///x"] {
            let head = ResponseHead(
                url: try #require(URL(string: "https://origin.example/x")), statusCode: 200,
                headers: [("Link", "<\(text)>; rel=duplicate")])
            #expect(MirrorLinks(head).mirrors.isEmpty, "\(text)")
        }
    }

    @Test func `a download with pinned keys sends nothing over plain HTTP`() async throws {
        fixture.server.serve(PatternBytes.data(count: 1000), at: "/file", etag: "\"1\"")
        var policy = SecurityPolicy()
        policy.pinningMode = .publicKey
        policy.publicKeyPins = [try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")]
        for text in texts {
            let url = try #require(URL(string: text))
            let download = DownloadOperation(request: URLRequest(url: url), destination: fixture.file())
            download.completionQueue = .global()
            download.connectionConfiguration.proxy = .none
            download.connectionConfiguration.securityPolicy = policy
            download.mirrors = [url]
            await fixture.run(download)
            #expect(download.error != nil && fixture.contents() == nil, "\(text)")
        }
        #expect(fixture.server.statistics.totalConnectionCount == 0)
    }
}
