import ConvoyDownloads
import ConvoySession
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Invalid resume data, which causes a typed error and never a crash or wrong bytes.
@Suite struct ResumeDataTests {
    let fixture: SessionFixture
    let resumeData: ResumeData

    init() async throws {
        fixture = try SessionFixture()
        fixture.server.servePattern(count: 200_000, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 90_000) : response
        }
        fixture.server.servePattern(count: 200_000, at: "/other", etag: "\"1\"")
        let task = fixture.manager.downloadTask(with: fixture.request("/file?b=2&a=%20"))
        task.resume()
        await task.end()
        resumeData = try #require(task.resumeData)
    }

    @Test func `resume data survives a round trip, including through a property list`() throws {
        #expect(try ResumeData(resumeData.data) == resumeData)
        let list = PropertyListEncoder()
        list.outputFormat = .binary
        #expect(try PropertyListDecoder().decode([ResumeData].self, from: list.encode([resumeData])) == [resumeData])
        #expect(resumeData.description.hasSuffix("/file?b=2&a=%20: 90000 of 200000 bytes"), "\(resumeData)")
    }

    @Test func `the partial file of an interrupted download is found by its URL`() async throws {
        let url = fixture.server.url("/file?b=2&a=%20")
        #expect(await fixture.manager.resumeData(ofInterruptedDownload: url) == resumeData)
        #expect(await fixture.manager.resumeData(ofInterruptedDownload: fixture.server.url("/other")) == nil)
        let task = fixture.manager.downloadTask(with: resumeData)
        task.resume()
        try await task.finished()
        #expect(fixture.server.requests.last?.headers["Range"] == "bytes=90000-")
        #expect(await fixture.manager.resumeData(ofInterruptedDownload: url) == nil)
    }

    @Test func `a partial file in use cannot be resumed by another download`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.servePattern(count: 200_000, at: "/file", etag: "\"1\"") { _, response in
            response.heldBody(by: gate, afterBytes: 1000)
        }
        let task = fixture.manager.downloadTask(with: resumeData)
        task.resume()
        try await waitUntil("the download resumes") { task.countOfBytesReceived > 90_000 }
        let url = fixture.server.url("/file?b=2&a=%20")
        #expect(await fixture.manager.resumeData(ofInterruptedDownload: url) == nil)
        task.cancel()
        await task.end()
    }

    @Test func `resume data truncated anywhere is rejected`() {
        let data = resumeData.data
        for count in 0..<data.count {
            #expect(throws: ResumeDataError.self, "\(count) bytes") { try ResumeData(data.prefix(count)) }
        }
        #expect(throws: ResumeDataError.self) { try ResumeData(data + data) }
        #expect(throws: ResumeDataError.self) { try ResumeData(Data(count: ResumeData.maximumSize + 1)) }
        #expect(throws: ResumeDataError.self) { try ResumeData(Data(repeating: UInt8(ascii: "["), count: 60_000)) }
    }

    @Test func `resume data with a changed byte is rejected`() {
        let data = resumeData.data
        for index in data.indices {
            for value in [data[index] ^ 1, data[index] ^ 0x20, data[index] ^ 0x80, 0, UInt8(ascii: "\""), UInt8(ascii: "9")]
            {
                guard value != data[index] else { continue }
                var changed = data
                changed[index] = value
                #expect(throws: ResumeDataError.self, "\(index): \(value)") { try ResumeData(changed) }
            }
        }
    }

    @Test func `resume data of a later version is rejected with its number`() {
        for version in [0, 2, 3, Int(Int32.max), -1, Int.max] {
            let changed = String(decoding: resumeData.data, as: UTF8.self)
                .replacingOccurrences(of: "\"version\":1", with: "\"version\":\(version)")
            #expect(throws: ResumeDataError.unsupportedVersion(version)) { try ResumeData(Data(changed.utf8)) }
        }
        #expect(throws: ResumeDataError.unsupportedVersion(7)) { try ResumeData(Data(#"{"version":7,"new":[]}"#.utf8)) }
    }

    @Test func `resume data for another URL is rejected`() throws {
        #expect(throws: ResumeDataError.otherURL) {
            try fixture.manager.downloadTask(
                with: resumeData, request: fixture.request("/other"), completionHandler: nil)
        }
        #expect(throws: ResumeDataError.otherURL) {
            try fixture.manager.downloadTask(
                with: resumeData, request: fixture.request("/file?b=2&a=x"), completionHandler: nil)
        }
        _ = try fixture.manager.downloadTask(
            with: resumeData, request: fixture.request("/file?b=2&a=%20"), completionHandler: nil)
    }

    /// An attacker can forge resume data including its digest.
    @Test(arguments: [
        ("url", "http://127.0.0.1/elsewhere"), ("url", "file:///etc/passwd"), ("url", ""), ("url", "http://u:p@127.0.0.1/"),
        ("file", "../../../../tmp/x"), ("file", "/etc/passwd"), ("file", ""), ("file", String(repeating: "A", count: 32)),
        ("file", String(repeating: "é", count: 16)), ("journal", ""), ("journal", "convoy-journal 1 1 2 00\n{}"),
        ("journal", "convoy-journal 2 1 2 00\n{}\n"),
    ])
    func `forged resume data cannot name another file or URL`(member: String, value: String) throws {
        struct Content: Codable {
            var digest: String, file: String, journal: String, url: String, version: Int
        }
        var content = try JSONDecoder().decode(Content.self, from: resumeData.data)
        switch member {
        case "url": content.url = value
        case "file": content.file = value
        default: content.journal = value
        }
        let text = [content.file, content.journal, content.url, "1"].map { "\($0.utf8.count):\($0)" }.joined()
        let digest = try ProcessRunner.run(
            "openssl", ["dgst", "-sha256", "-r"], input: Data(text.utf8), timeout: 30)
        content.digest = String(String(decoding: digest.output, as: UTF8.self).prefix(64))
        #expect(throws: ResumeDataError.self) { try ResumeData(JSONEncoder().encode(content)) }
    }

    @Test func `resume data is trusted only as far as the journal confirms it`() async throws {
        // Create another file with the same name, whose bytes do not belong to the download and are not in the journal.
        let directory = fixture.directory.url.appendingPathComponent("parts")
        for name in fixture.parts {
            let file = directory.appendingPathComponent(name)
            if name.hasSuffix(".convoypart") {
                try Data(repeating: 7, count: 150_000).write(to: file)
            } else {
                try FileManager.default.removeItem(at: file)
            }
        }
        let task = fixture.manager.downloadTask(with: resumeData)
        fixture.server.servePattern(count: 200_000, at: "/file", etag: "\"1\"")
        task.resume()
        try await task.finished()
        #expect(try Data(contentsOf: #require(task.fileURL)) == PatternBytes.data(count: 200_000))
    }

    @Test func `a file that has changed on the server is downloaded again`() async throws {
        fixture.server.servePattern(count: 190_000, at: "/file", etag: "\"2\"")
        let task = fixture.manager.downloadTask(with: resumeData)
        task.resume()
        try await task.finished()
        #expect(try Data(contentsOf: #require(task.fileURL)) == PatternBytes.data(count: 190_000))
    }
}
