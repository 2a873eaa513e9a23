import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

/// Multipart uploads to a misbehaving server.
@Suite struct MultipartFaultTests {
    /// Responds to the requests of an upload of `/bucket/a` according to their queries, unless overridden.
    final class Uploads: Sendable {
        struct State {
            var parts: [Int: Data] = [:]
            var isAborted = false
            var completions = 0
        }

        let server: TestServer
        let state = Locked(State())
        private let override: @Sendable (RecordedRequest, Uploads) -> TestServer.Response?

        init(_ override: @escaping @Sendable (RecordedRequest, Uploads) -> TestServer.Response? = { _, _ in nil }) throws {
            (server, self.override) = (try TestServer(), override)
            server.route(nil, "/bucket/a") { [weak self] request in self?.answer(request) ?? .status(400) }
        }

        private func answer(_ request: RecordedRequest) -> TestServer.Response {
            if let other = override(request, self) { return other }
            let query = request.query ?? ""
            switch request.method {
            case "POST" where query == "uploads=":
                return MultipartFaultTests.xml("<Result><UploadId>id/+=</UploadId></Result>")
            case "PUT":
                guard let number = query.firstMatch(of: /partNumber=(\d+)/).flatMap({ Int($0.1) }) else { break }
                state.withLock { $0.parts[number] = request.body }
                return .status(200, headers: ["ETag": "\"\(MultipartFaultTests.md5(request.body))\""])
            case "GET":
                let parts = state.withLock { $0.parts }.sorted { $0.key < $1.key }.map {
                    "<Part><PartNumber>\($0.key)</PartNumber><ETag>\"\(MultipartFaultTests.md5($0.value))\"</ETag><Size>\($0.value.count)</Size></Part>"
                }
                return MultipartFaultTests.xml(
                    "<Result><UploadId>id</UploadId><IsTruncated>false</IsTruncated>\(parts.joined())</Result>")
            case "POST":
                state.withLock { $0.completions += 1 }
                return MultipartFaultTests.xml("<Result><ETag>\(tag)</ETag></Result>")
            case "HEAD": return .status(200, headers: ["ETag": tag])
            case "DELETE":
                state.withLock { $0.isAborted = true }
                return .status(204)
            default: break
            }
            return .status(400)
        }

        /// The entity tag of the object.
        var tag: String {
            let digest = MessageDigest(.md5)
            let parts = state.withLock { $0.parts }
            for part in parts.sorted(by: { $0.key < $1.key }) {
                let one = MessageDigest(.md5)
                one.update(part.value)
                digest.update(one.value() ?? Data())
            }
            return "\"\(digest.value()?.hexadecimalString ?? "")-\(parts.count)\""
        }

        func storage(_ change: (inout ObjectStorage.Configuration) -> Void = { _ in }) throws -> ObjectStorage {
            try ObjectStorage(at: server) {
                ($0.partSize, $0.multipartThreshold, $0.checksum) = (1, 1, .none)
                change(&$0)
            }
        }
    }

    private static func xml(_ text: String) -> TestServer.Response { .bytes(Data(text.utf8), type: "application/xml") }

    private static func md5(_ data: Data) -> String {
        let digest = MessageDigest(.md5)
        digest.update(data)
        return digest.value()?.hexadecimalString ?? ""
    }

    private func source(_ directory: TemporaryDirectory, mebibytes: Int = 12) throws -> (file: URL, data: Data) {
        let data = PatternBytes.data(count: mebibytes << 20)
        return (try directory.write(data, to: "source.bin"), data)
    }

    /// Replaces a file by another one with the same modification time.
    private func replace(_ file: URL, with data: Data, in directory: TemporaryDirectory) throws {
        var facts = stat()
        #expect(stat(file.path, &facts) == 0)
        let other = try directory.write(data, to: "other")
        #expect(utimensat(AT_FDCWD, other.path, [facts.st_mtim, facts.st_mtim], 0) == 0)
        #expect(rename(other.path, file.path) == 0)
    }

    @Test(arguments: [false, true])
    func `a replaced file is accepted only if its contents are the same`(_ isChanged: Bool) async throws {
        let uploads = try Uploads()
        let storage = try uploads.storage()
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        struct Interrupted: Error {}
        let latest = Locked<MultipartUpload?>(nil)
        let begun = try await storage.beginUpload(of: file, key: "a")
        await #expect(throws: Interrupted.self) {
            try await storage.resume(begun) { upload in
                latest.withLock { $0 = upload }
                throw Interrupted()
            }
        }
        let upload = try #require(latest.withLock { $0 })
        let sent = try #require(upload.parts.first).number
        var contents = data
        if isChanged { contents[(sent - 1) * (5 << 20) + 3] ^= 1 }
        try replace(file, with: contents, in: directory)
        guard !isChanged else {
            let error = await storageError { try await storage.resume(upload) }
            #expect(error?.code == .sourceChanged)
            return
        }
        try await storage.resume(upload)
        let stored = uploads.state.withLock { $0.parts }.sorted { $0.key < $1.key }.reduce(Data()) { $0 + $1.value }
        #expect(stored == data)
    }

    @Test func `each part is signed and sent once, and the limit of concurrent parts is respected`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory, mebibytes: 32)
        let uploads = try Uploads()
        try await uploads.storage { $0.concurrentParts = 2 }.put(fileAt: file, key: "a")
        let parts = uploads.state.withLock { $0.parts }
        #expect(parts.sorted { $0.key < $1.key }.reduce(Data()) { $0 + $1.value } == data)
        #expect(uploads.server.requests("PUT", "/bucket/a").count == 7)
        #expect(uploads.server.peakActiveRequestCount <= 2)
        for request in uploads.server.requests { #expect(try request.hasSignature(), "\(request.target)") }
    }

    @Test(arguments: [false, true]) func `uploading a large file uses little memory`(_ isInParts: Bool) async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(), to: "large")
        let size: Int64 = 256 << 20
        #expect(truncate(file.path, off_t(size)) == 0)
        let server = try TestServer()
        server.route("PUT", "/bucket/a", options: .discardsBody, .status(200, headers: ["ETag": "\"tag\""]))
        server.route("POST", "/bucket/a") { request in
            Self.xml("<Result><UploadId>id</UploadId><ETag>\"tag-\(request.bodyLength)\"</ETag></Result>")
        }
        let storage = try ObjectStorage(at: server) { $0.multipartThreshold = isInParts ? 1 : size + 1 }
        #expect(ProcessMeters.resetPeak())
        let before = ProcessMeters.peakResidentKilobytes
        let object = try await storage.put(fileAt: file, key: "a")
        #expect(object.size == size)
        #expect(server.requests("PUT", "/bucket/a").reduce(0) { $0 + $1.bodyLength } == Int(size))
        let growth = ProcessMeters.peakResidentKilobytes - before
        #expect(growth < 64 << 10, "\(growth) KiB")
        print("memory for \(isInParts ? "parts" : "one request"): \(growth) KiB")
    }

    @Test func `a failed part aborts the upload`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, _ in
            request.query?.hasPrefix("partNumber=2") == true ? errorDocument("AccessDenied", status: 403) : nil
        }
        let storage = try uploads.storage()
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code == .accessDenied && error?.key == "a")
        #expect(uploads.state.withLock { $0.isAborted && $0.completions == 0 })
    }

    @Test func `an upload with a wrong entity tag of a part is not completed`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, _ in
            request.query?.hasPrefix("partNumber=3") == true
                ? .status(200, headers: ["ETag": "\"\(Self.md5(Data()))\""]) : nil
        }
        let storage = try uploads.storage()
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code == .checksumMismatch)
        #expect(uploads.state.withLock { $0.isAborted && $0.completions == 0 })
    }

    @Test func `a part is sent again after a lost connection or an overload`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let failures = Locked(0)
        let uploads = try Uploads { request, _ in
            guard request.query?.hasPrefix("partNumber=2") == true else { return nil }
            switch failures.withLock({
                $0 += 1; return $0
            }) {
            case 1: return errorDocument("SlowDown", status: 503)
            case 2: return .status(200).resetBeforeHead()
            default: return nil
            }
        }
        try await uploads.storage().put(fileAt: file, key: "a")
        #expect(uploads.state.withLock { $0.parts }.sorted { $0.key < $1.key }.reduce(Data()) { $0 + $1.value } == data)
        #expect(uploads.server.requests("PUT", "/bucket/a").count == 5)
    }

    @Test func `a cancelled upload is aborted`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let gate = TestServer.Gate()
        let uploads = try Uploads { request, _ in
            request.query?.hasPrefix("partNumber=") == true ? .status(200).held(by: gate) : nil
        }
        let storage = try uploads.storage { $0.concurrentParts = 1 }
        let task = Task { try await storage.put(fileAt: file, key: "a") }
        try await uploads.server.waitForRequests(count: 2)
        task.cancel()
        await #expect(throws: (any Error).self) { try await task.value }
        #expect(uploads.state.withLock { $0.isAborted && $0.completions == 0 })
        gate.open()
    }

    @Test func `an upload fails if the response to its completion is an error document`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, _ in
            request.method == "POST" && request.query != "uploads=" ? errorDocument("InvalidPart", status: 200) : nil
        }
        let storage = try uploads.storage()
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code.rawValue == "InvalidPart" && error?.statusCode == 200)
        #expect(uploads.state.withLock { $0.isAborted })
    }

    @Test func `a completion whose response is lost succeeds if the object exists`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, uploads in
            guard request.method == "POST", request.query != "uploads=" else { return nil }
            let count = uploads.state.withLock {
                $0.completions += 1; return $0.completions
            }
            return count == 1 ? .status(200).resetBeforeHead() : errorDocument("NoSuchUpload", status: 404)
        }
        let object = try await uploads.storage().put(fileAt: file, key: "a")
        #expect(object.entityTag == uploads.tag)
        #expect(uploads.state.withLock { !$0.isAborted && $0.completions == 2 })
    }

    @Test func `an upload fails if the entity tag of the complete object does not match`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, _ in
            request.method == "POST" && request.query != "uploads="
                ? Self.xml("<Result><ETag>\"\(Self.md5(Data()))-3\"</ETag></Result>") : nil
        }
        let storage = try uploads.storage()
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code == .checksumMismatch)
    }

    @Test func `an upload of a changed source fails before any byte is sent`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let uploads = try Uploads()
        let storage = try uploads.storage()
        let upload = try await storage.beginUpload(of: file, key: "a")
        uploads.server.forgetRequests()
        // Another file with the same bytes is another source.
        try FileManager.default.removeItem(at: file)
        try data.write(to: file)
        var error = await storageError { try await storage.resume(upload) }
        #expect(error?.code == .sourceChanged)
        try FileManager.default.removeItem(at: file)
        error = await storageError { try await storage.resume(upload) }
        #expect(error?.code == .unreadableSource)
        #expect(uploads.server.requests.isEmpty)
    }

    @Test func `a source that changes between two parts never becomes an object`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let uploads = try Uploads { request, _ in
            if request.query?.hasPrefix("partNumber=3") == true { try? data.write(to: file) }
            return nil
        }
        let storage = try uploads.storage { $0.concurrentParts = 1 }
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code == .sourceChanged)
        #expect(uploads.state.withLock { $0.isAborted && $0.completions == 0 })
    }

    @Test func `stored parts that do not match the file are sent again`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let uploads = try Uploads()
        let storage = try uploads.storage()
        let upload = try await storage.beginUpload(of: file, key: "a")
        // The correct size with other bytes, the correct bytes, another size, and a number that the file does not have.
        uploads.state.withLock { state in
            state.parts = [1: Data(count: 5 << 20), 2: data[(5 << 20)..<(10 << 20)], 3: Data(count: 3)]
        }
        try await storage.resume(upload)
        #expect(uploads.state.withLock { $0.parts }.sorted { $0.key < $1.key }.reduce(Data()) { $0 + $1.value } == data)
        let numbers = uploads.server.requests("PUT", "/bucket/a").compactMap { $0.query?.prefix(12) }
        #expect(numbers.sorted() == ["partNumber=1", "partNumber=3"])
    }

    @Test func `an upload that is resumed until it succeeds stores the file, whichever step fails`() async throws {
        let random = Locked(SplitMix64.printingSeed())
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        for _ in 0..<PropertyBudget.rounds(8) {
            let uploads = try Uploads { request, uploads in
                switch random.withLock({ Int.random(in: 0..<16, using: &$0) }) {
                case 0: return errorDocument("SlowDown", status: 503)
                case 1: return errorDocument("InternalError", status: 200)
                case 2: return errorDocument("AccessDenied", status: 403)
                case 3: return .status(200).resetBeforeHead()
                case 4: return .status(200, headers: ["ETag": "\"\(Self.md5(Data()))\""])
                case 5: return Self.xml("<Result><UploadId>i").contentLength(1000).closing()
                case 6:
                    // The request is processed, but its response is lost.
                    if let number = request.query?.firstMatch(of: /partNumber=(\d+)/).flatMap({ Int($0.1) }) {
                        uploads.state.withLock { $0.parts[number] = request.body }
                    }
                    return errorDocument("InternalError", status: 500)
                default: return nil
                }
            }
            let storage = try uploads.storage { $0.retryPolicy?.maximumRetryCount = 1 }
            var upload: MultipartUpload?
            for _ in 0..<200 where upload == nil {
                upload = try? await storage.beginUpload(of: file, key: "a")
            }
            let latest = Locked(try #require(upload))
            var isStored = false
            for _ in 0..<200 where !isStored {
                let upload = latest.withLock { $0 }
                isStored = (try? await storage.resume(upload) { upload in latest.withLock { $0 = upload } }) != nil
            }
            #expect(isStored && uploads.state.withLock { $0.completions } > 0)
            let parts = uploads.state.withLock { $0.parts }
            #expect(parts.sorted { $0.key < $1.key }.reduce(Data()) { $0 + $1.value } == data)
        }
    }

    @Test func `an upload fails if the list of its parts never ends`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let uploads = try Uploads { request, _ in
            request.method == "GET"
                ? Self.xml(
                    "<R><UploadId>i</UploadId><IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker></R>"
                )
                : nil
        }
        let storage = try uploads.storage()
        let upload = try await storage.beginUpload(of: file, key: "a")
        let error = await storageError { try await storage.resume(upload) }
        #expect(error?.code == .malformedAnswer)
    }
}
