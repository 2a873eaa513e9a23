import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Uploads with tus to a built-in server.
struct TusUploadTests {
    @Test(arguments: [0, 1, 1000, 300_000, 3 << 20])
    func `a file is uploaded completely`(count: Int) async throws {
        let fixture = try UploadFixture(count)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url())
        try await upload.finished()
        let stored = try #require(server.stored(upload.uploadURL))
        #expect(stored.data == fixture.bytes && stored.length == count)
        #expect(upload.uploadProgress.bytesConfirmed == Int64(count) && upload.uploadProgress.fractionCompleted == 1)
        #expect(upload.responseObject as? URL == upload.uploadURL)
        #expect(fixture.journals.isEmpty)
        let metadata = try #require(server.state.withLock { $0.requests.first?.fields["upload-metadata"] })
        #expect(metadata.contains("filename \(Data("source.bin".utf8).base64EncodedString())"))
    }

    @Test func `the server's protocol is detected automatically`() async throws {
        let fixture = try UploadFixture(1000)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), .automatic)
        try await upload.finished()
        #expect(upload.chosenProtocol == .tus && server.stored(upload.uploadURL)?.data == fixture.bytes)
    }

    @Test func `chunks have the configured size, and only confirmed bytes count as progress`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), chunk: 30_000)
        let seen = Locked<[Int64]>([])
        let ahead = Locked(0)
        upload.uploadProgressHandler = { [weak upload] _, total, _ in
            seen.withLock { $0.append(total) }
            let there = server.stored(upload?.uploadURL)?.data.count ?? 0
            if total > there { ahead.withLock { $0 += 1 } }
        }
        try await upload.finished()
        let sizes = server.state.withLock { $0.requests }.filter { $0.method == "PATCH" }.map { $0.number("content-length") }
        #expect(sizes == [30_000, 30_000, 30_000, 10_000])
        #expect(ahead.withLock { $0 } == 0 && seen.withLock { $0.last } == 100_000)
    }

    @Test func `a later upload resumes at the server's offset`() async throws {
        let fixture = try UploadFixture(200_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            guard request.method == "PATCH", request.number("upload-offset") ?? 0 >= 100_000, isBroken.withLock({ $0 })
            else {
                return nil
            }
            return .reset(after: 12_345)
        }
        let first = fixture.upload(to: server.url(), chunk: 50_000)
        await finish(first)
        #expect((first.error as? URLError)?.code == .networkConnectionLost, "\(String(describing: first.error))")
        #expect(fixture.journals.count == 1)
        isBroken.withLock { $0 = false }
        let second = fixture.upload(to: server.url(), chunk: 50_000)
        try await second.finished()
        let state = server.state.withLock { $0 }
        #expect(second.uploadURL == first.uploadURL && state.uploads.count == 1)
        #expect(server.stored(second.uploadURL)?.data == fixture.bytes)
        #expect(state.received == 200_000)
        let offsets = state.requests.filter { $0.method == "PATCH" }.map { $0.number("upload-offset") }
        #expect(offsets == [0, 50_000, 100_000, 112_345, 162_345])
    }

    @Test func `a retry resumes at the server's offset`() async throws {
        let fixture = try UploadFixture(200_000)
        let count = Locked(0)
        let server = try UploadServer { request, _ in
            guard request.method == "PATCH" else { return nil }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number.isMultiple(of: 2) ? nil : .reset(after: 9_999)
        }
        let upload = fixture.upload(to: server.url(), chunk: 20_000, retries: 2)
        try await upload.finished()
        // Progress resets the number of consecutive failures, so there can be more than two retries.
        #expect(upload.retryCount > 2)
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes && server.state.withLock { $0.received } == 200_000)
    }

    @Test func `a paused upload resumes without starting over`() async throws {
        let fixture = try UploadFixture(400_000)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), chunk: 10_000)
        upload.sendRateLimit = RateLimit(bytesPerSecond: 2 << 20)
        let paused = Locked(0)
        upload.uploadProgressHandler = { [weak upload] _, total, _ in
            let pauses = paused.withLock { paused -> Bool in
                guard total >= Int64(paused + 1) * 100_000, paused < 3 else { return false }
                paused += 1
                return true
            }
            guard pauses else { return }
            upload?.pause()
            upload?.resume()
        }
        try await upload.finished()
        #expect(paused.withLock { $0 } == 3)
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes && server.state.withLock { $0.uploads.count } == 1)
    }

    @Test func `an upload of a changed source fails before any byte is sent`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer { request, _ in
            request.method == "PATCH" && request.number("upload-offset") ?? 0 > 0 ? .reset(after: 0) : nil
        }
        await finish(fixture.upload(to: server.url(), chunk: 10_000))
        var changed = fixture.bytes
        changed[99_999] ^= 1
        try changed.write(to: fixture.file)
        let before = server.state.withLock { $0.requests.count }
        let second = fixture.upload(to: server.url())
        await finish(second)
        #expect(second.reason == .sourceChanged)
        #expect(server.state.withLock { $0.requests.count } == before)
    }

    @Test(arguments: [UploadResumption.resumeOrRestart, .restart])
    func `an upload of a changed source starts over if allowed`(_ resumption: UploadResumption) async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 > 0 ? .reset(after: 0) : nil
        }
        await finish(fixture.upload(to: server.url(), chunk: 10_000))
        isBroken.withLock { $0 = false }
        let changed = fixture.bytes.prefix(50_000) + Data("more".utf8)
        try changed.write(to: fixture.file)
        let second = fixture.upload(to: server.url())
        second.resumption = resumption
        try await second.finished()
        #expect(server.stored(second.uploadURL)?.data == changed && fixture.journals.isEmpty)
    }

    @Test func `a replaced source is accepted only if its contents are the same`() async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.method == "PATCH" && request.number("upload-offset") ?? 0 >= 50_000
                ? .reset(after: 0) : nil
        }
        await finish(fixture.upload(to: server.url(), chunk: 10_000))
        isBroken.withLock { $0 = false }
        let time = try FileManager.default.attributesOfItem(atPath: fixture.file.path)[.modificationDate]
        func replace(_ bytes: Data) throws {
            let other = fixture.directory.file("other")
            try bytes.write(to: other)
            var times = [timespec(), timespec()]
            var facts = stat()
            stat(fixture.file.path, &facts)
            times = [facts.st_mtim, facts.st_mtim]
            utimensat(AT_FDCWD, other.path, times, 0)
            #expect(rename(other.path, fixture.file.path) == 0)
        }
        #expect(time != nil)
        var changed = fixture.bytes
        changed[3] ^= 1
        try replace(changed)
        let wrong = fixture.upload(to: server.url(), chunk: 10_000)
        await finish(wrong)
        #expect(wrong.reason == .sourceChanged)
        try replace(fixture.bytes)
        let right = fixture.upload(to: server.url(), chunk: 10_000)
        try await right.finished()
        #expect(server.stored(right.uploadURL)?.data == fixture.bytes && server.state.withLock { $0.received } == 100_000)
    }

    @Test func `an upload never completes if the file changes while it is sent`() async throws {
        let fixture = try UploadFixture(600_000)
        let file = fixture.file
        let server = try UploadServer { request, _ in
            if request.method == "PATCH", request.number("upload-offset") == 0 {
                // The write keeps the length of the file, but changes its modification time.
                let handle = try? FileHandle(forWritingTo: file)
                try? handle?.seek(toOffset: 10)
                try? handle?.write(contentsOf: Data([1, 2, 3]))
                try? handle?.close()
            }
            return nil
        }
        let upload = fixture.upload(to: server.url(), chunk: 300_000)
        await finish(upload)
        #expect(upload.reason == .sourceChanged)
        #expect(server.stored(upload.uploadURL)?.data.count ?? 0 < 600_000)
    }

    @Test func `an upload that the server has deleted starts over only if allowed`() async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 > 0 ? .reset(after: 0) : nil
        }
        let first = fixture.upload(to: server.url(), chunk: 50_000)
        await finish(first)
        isBroken.withLock { $0 = false }
        server.state.withLock { $0.uploads = [:] }
        let second = fixture.upload(to: server.url())
        await finish(second)
        #expect(second.reason == .gone(status: 404))
        #expect(fixture.journals.count == 1)
        let third = fixture.upload(to: server.url())
        third.resumption = .resumeOrRestart
        try await third.finished()
        #expect(server.stored(third.uploadURL)?.data == fixture.bytes)
    }

    @Test func `a second upload of a file to the same URL is rejected`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer { request, _ in request.method == "PATCH" ? .stall : nil }
        let first = fixture.upload(to: server.url())
        let queue = RequestOperationQueue()
        queue.addOperation(first)
        while !server.state.withLock({ $0.requests.contains { $0.method == "PATCH" } }) { await Task.yield() }
        let second = fixture.upload(to: server.url())
        await finish(second)
        #expect(second.reason == .inUse)
        first.cancel()
        await finish(first)
    }

    @Test func `a cancelled upload can be terminated on the server`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer { request, _ in request.method == "PATCH" ? .stall : nil }
        let upload = fixture.upload(to: server.url())
        upload.terminatesWhenCancelled = true
        RequestOperationQueue().addOperation(upload)
        while !server.state.withLock({ $0.requests.contains { $0.method == "PATCH" } }) { await Task.yield() }
        upload.cancel()
        await finish(upload)
        try eventually { server.state.withLock { $0.uploads.isEmpty } && fixture.journals.isEmpty }
        #expect((upload.error as? URLError)?.code == .cancelled)
    }

    @Test func `parts are uploaded in parallel and combined`() async throws {
        let fixture = try UploadFixture(1_000_003)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), chunk: 100_000)
        upload.parallelPartCount = 4
        upload.minimumPartLength = 1000
        upload.checksum = try Checksum(.sha256, digest: #require(MessageDigest.sha256(fixture.bytes)))
        try await upload.finished()
        let stored = try #require(server.stored(upload.uploadURL))
        #expect(stored.data == fixture.bytes && stored.isComplete)
        #expect(server.state.withLock { $0.uploads.values.filter(\.isPartial).count } == 4)
        #expect(server.state.withLock { $0.received } == 1_000_003)
    }

    @Test func `interrupted parallel parts resume`() async throws {
        let fixture = try UploadFixture(1_000_003)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 >= 200_000 ? .reset(after: 777) : nil
        }
        func make() -> UploadOperation {
            let upload = fixture.upload(to: server.url(), chunk: 50_000)
            upload.parallelPartCount = 4
            upload.minimumPartLength = 1000
            return upload
        }
        await finish(make())
        isBroken.withLock { $0 = false }
        let second = make()
        try await second.finished()
        #expect(server.stored(second.uploadURL)?.data == fixture.bytes)
        #expect(server.state.withLock { $0.uploads.values.filter(\.isPartial).count } == 4)
        #expect(server.state.withLock { $0.received } <= 1_000_003 + 4 * 50_000)
    }

    @Test func `damaged chunks are sent again`() async throws {
        let fixture = try UploadFixture(100_000)
        let count = Locked(0)
        let server = try UploadServer { request, _ in
            guard request.method == "PATCH",
                count.withLock({
                    $0 += 1; return $0
                }) == 2
            else { return nil }
            return .answer(
                "HTTP/1.1 460 Checksum Mismatch\r\nTus-Resumable: 1.0.0\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        }
        let upload = fixture.upload(to: server.url(), chunk: 20_000)
        upload.chunkChecksumAlgorithm = .sha1
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
        let sums = server.state.withLock { $0.requests }.filter { $0.method == "PATCH" }.map { $0.fields["upload-checksum"] }
        #expect(sums.allSatisfy { $0?.hasPrefix("sha1 ") == true } && sums.count == 6)
    }

    @Test func `a wrong checksum is detected before the upload completes`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), chunk: 30_000)
        upload.checksum = try Checksum(.sha256, digest: Data(count: 32))
        await finish(upload)
        guard case .checksumMismatch? = upload.reason else {
            Issue.record("\(String(describing: upload.error))")
            return
        }
        #expect(server.stored(upload.uploadURL)?.data.count == 90_000)
        let right = fixture.upload(to: server.url(), chunk: 30_000)
        right.checksum = try Checksum(.sha256, digest: #require(MessageDigest.sha256(fixture.bytes)))
        right.computedChecksumAlgorithms = [.md5]
        try await right.finished()
        let digest = MessageDigest(.md5)
        digest.update(fixture.bytes)
        #expect(right.computedChecksums == [try #require(Checksum(of: digest))])
        #expect(server.state.withLock { $0.received } == 100_000)
    }

    @Test func `the first bytes can be sent with the creation request`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), chunk: 60_000)
        upload.sendsDataWithCreation = true
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
        #expect(server.state.withLock { $0.requests.map(\.method) } == ["POST", "PATCH"])
    }

    @Test func `secrets in the upload's URL are not stored in the journal`() async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            switch request.method {
            case "POST":
                .change { head, _ in
                    for index in head.indices where head[index].0 == "Location" {
                        head[index].1 += "?token=s3cret-abcdefgh&n=1"
                    }
                }
            case "PATCH" where isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 > 0: .reset(after: 0)
            default: nil
            }
        }
        // The test server identifies uploads by their paths.
        server.state.withLock { $0.uploads = [:] }
        let first = fixture.upload(to: server.url("/files?token=s3cret-abcdefgh"), chunk: 40_000)
        await finish(first)
        let journal = try String(
            decoding: Data(contentsOf: fixture.directory.file(try #require(fixture.journals.first))), as: UTF8.self)
        #expect(!journal.contains("s3cret") && journal.contains("convoy-upload 1"))
    }

    @Test func `credentials are sent only to their origin`() async throws {
        let fixture = try UploadFixture(50_000)
        let other = try UploadServer()
        let server = try UploadServer(locationBase: "http://127.0.0.1:\(other.port)")
        other.state.withLock { $0.uploads["/files/u1"] = UploadServer.Stored(length: 50_000) }
        var request = URLRequest(url: server.url())
        request.setValue("Bearer secret", forHTTPHeaderField: "Authorization")
        request.setValue("key", forHTTPHeaderField: "X-Api-Key")
        let upload = UploadOperation(request: request, file: fixture.file)
        upload.uploadProtocol = .tus
        upload.settleForTests()
        try await upload.finished()
        #expect(other.stored(upload.uploadURL)?.data == fixture.bytes)
        #expect(server.state.withLock { $0.requests.allSatisfy { $0.fields["authorization"] == "Bearer secret" } })
        #expect(
            other.state.withLock {
                $0.requests.allSatisfy { $0.fields["authorization"] == nil && $0.fields["x-api-key"] == nil }
            })
        #expect(other.state.withLock { $0.requests.contains { $0.method == "PATCH" && $0.isTus } })
    }
}
