import ConvoyDownloads
import ConvoySession
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Resume data for files whose entity tags contain arbitrary bytes.
@Suite struct EchoedResumeDataTests {
    @Test func `resume data preserves the bytes of the tag, and is nil for a tag that cannot be sent`() async throws {
        let (server, fixture) = (try ValidatorServer(), try SessionFixture())
        for (byte, tag, isSendable) in ValidatorServer.tags {
            server.tag = tag
            server.cuts = true
            let first = fixture.manager.downloadTask(with: URLRequest(url: server.url("\(byte)")))
            first.resume()
            await first.end()
            #expect((first.resumeData != nil) == isSendable, "\(byte)")
            server.cuts = false
            _ = server.takeRequests()
            guard let left = first.resumeData else { continue }
            let second = fixture.manager.downloadTask(with: try ResumeData(left.data))
            second.resume()
            await second.end()
            #expect(try Data(contentsOf: #require(second.fileURL)) == ValidatorServer.body, "\(byte)")
            let request = server.takeRequests().first
            #expect(request?.field("If-Range") == tag && request?.field("Range") != nil, "\(byte)")
        }
    }
}
