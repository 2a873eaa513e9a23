import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Uploads to third-party tus servers.
@Suite(.serialized, .needsTusPyServer) struct TusPyServerTests {
    @Test func `files, parts and sequences are uploaded completely`() async throws {
        let server = try TusPyServer()
        let fixture = try UploadFixture(2_500_000)
        let plain = fixture.upload(to: server.url, .automatic)
        try await plain.finished()
        #expect(plain.chosenProtocol == .tus && server.stored(plain.uploadURL) == fixture.bytes)

        let chunked = fixture.upload(to: server.url, chunk: 300_000)
        try await chunked.finished()
        #expect(server.stored(chunked.uploadURL) == fixture.bytes)

        let parts = fixture.upload(to: server.url)
        parts.parallelPartCount = 3
        parts.minimumPartLength = 1000
        try await parts.finished()
        #expect(server.stored(parts.uploadURL) == fixture.bytes)

        let bytes = fixture.bytes
        let sequence = UploadOperation(request: URLRequest(url: server.url)) {
            AsyncStream<Data> { stream in
                for start in stride(from: 0, to: bytes.count, by: 50_000) {
                    stream.yield(bytes[start..<min(start + 50_000, bytes.count)])
                }
                stream.finish()
            }
        }
        sequence.metadata = ["filename": "sequence.bin"]
        sequence.windowSize = 1 << 20
        sequence.settleForTests()
        try await sequence.finished()
        #expect(server.stored(sequence.uploadURL) == fixture.bytes)
    }

    @Test func `a stopped upload resumes, and a terminated one starts over`() async throws {
        let server = try TusPyServer()
        let fixture = try UploadFixture(1_000_000)
        let first = fixture.upload(to: server.url, chunk: 100_000)
        first.uploadProgressHandler = { [weak first] _, total, _ in if total >= 300_000 { first?.cancel() } }
        await finish(first)
        #expect((first.error as? URLError)?.code == .cancelled)
        let second = fixture.upload(to: server.url, chunk: 100_000)
        try await second.finished()
        #expect(second.uploadURL == first.uploadURL && server.stored(second.uploadURL) == fixture.bytes)

        let third = fixture.upload(to: server.url, chunk: 100_000)
        third.uploadProgressHandler = { [weak third] _, total, _ in if total >= 300_000 { third?.cancel() } }
        await finish(third)
        try await third.terminate()
        #expect(server.stored(first.uploadURL) != nil && fixture.journals.isEmpty)
        let fourth = fixture.upload(to: server.url)
        try await fourth.finished()
        #expect(fourth.uploadURL != third.uploadURL && server.stored(fourth.uploadURL) == fixture.bytes)
    }
}

@Suite(.needsTusd) struct TusdTests {
    @Test func `a file is uploaded with tus and with the draft`() async throws {
        let fixture = try UploadFixture(1_000_000)
        let server = try Tusd()
        for kind in [UploadProtocol.automatic, .draft] {
            let upload = fixture.upload(to: server.url, kind)
            try await upload.finished()
            #expect(server.stored(upload.uploadURL) == fixture.bytes)
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the suite, with a reason, if tuspyserver is not installed.
    static var needsTusPyServer: Self { .enabled(if: TusPyServer.isInstalled, "needs \(TusPyServer.installHint)") }

    /// Skips the suite, with a reason, if tusd is not on the `PATH`.
    static var needsTusd: Self { .enabled(if: Tusd.isInstalled, "needs tusd on the PATH") }
}
