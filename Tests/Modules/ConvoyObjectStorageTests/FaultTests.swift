import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyUploads
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyObjectStorage

/// The reaction to misbehaving servers and changing files.
@Suite struct FaultTests {
    private static let data = Data("some bytes".utf8)
    /// The response to a PUT of `data`.
    private static let stored = TestServer.Response.status(200, headers: ["ETag": "\"\(md5(data))\""])

    private static func md5(_ data: Data) -> String {
        let digest = MessageDigest(.md5)
        digest.update(data)
        return digest.value()?.hexadecimalString ?? ""
    }

    // MARK: Retries

    @Test func `a request to an overloaded server is retried with a new signature`() async throws {
        let server = try TestServer()
        // On a reused connection, libcurl itself would send the request again.
        server.route(
            "PUT", "/bucket/a",
            inTurn: [errorDocument("SlowDown", status: 503).closing(), .status(200).resetBeforeHead(), Self.stored])
        let keys = Locked(0)
        let provider = ObjectStorageCredentialProvider {
            let number = keys.withLock {
                $0 += 1; return $0
            }
            return ObjectStorageCredentials(
                accessKeyID: "KEY\(number)", secretAccessKey: "secret\(number)",
                sessionToken: number == 3 ? nil : "t+/=\(number)")
        }
        let storage = try ObjectStorage(at: server, credentials: provider)
        try await storage.put(Self.data, key: "a")
        let requests = server.requests
        #expect(requests.count == 3)
        for (index, request) in requests.enumerated() {
            #expect(request.body == Self.data)
            #expect(request.headers["x-amz-security-token"] == (index == 2 ? nil : "t+/=\(index + 1)"))
            let credentials = ObjectStorageCredentials(
                accessKeyID: "KEY\(index + 1)", secretAccessKey: "secret\(index + 1)")
            #expect(try request.hasSignature(of: credentials))
            #expect(request.headers.values(for: "Authorization").count == 1)
        }
    }

    @Test func `a retry sends the file from the beginning`() async throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        let data = PatternBytes.data(count: 1 << 20)
        let file = try directory.write(data, to: "a.bin")
        server.route(
            "PUT", "/bucket/a",
            inTurn: [
                errorDocument("InternalError", status: 500), errorDocument("RequestTimeout", status: 400), .status(200),
            ])
        let stored = try await ObjectStorage(at: server).put(fileAt: file, key: "a")
        #expect(stored.size == 1 << 20)
        #expect(server.requests.count == 3)
        for request in server.requests { #expect(try request.body == data && request.hasSignature()) }
    }

    @Test func `an object whose response was truncated is fetched again`() async throws {
        let server = try TestServer()
        let data = PatternBytes.data(count: 200_000)
        server.route("GET", "/bucket/a", inTurn: [.bytes(data).truncated(afterBytes: 70_000), .bytes(data)])
        #expect(try await ObjectStorage(at: server).get("a") == data)
        for request in server.requests { #expect(try request.hasSignature()) }
    }

    // MARK: Checksums

    @Test func `an upload fails if the entity tag does not match the bytes`() async throws {
        let server = try TestServer()
        let other = Self.md5(Data("other bytes".utf8))
        server.route("PUT", "/bucket/a", .status(200, headers: ["ETag": "\"\(other)\""]))
        let storage = try ObjectStorage(at: server)
        let error = await storageError { try await storage.put(Self.data, key: "a") }
        #expect(error?.code == .checksumMismatch && error?.key == "a")
        // With encryption by a key of the service, the tag is not an MD5 digest.
        server.route(
            "PUT", "/bucket/a", .status(200, headers: ["ETag": "\"\(other)\"", "x-amz-server-side-encryption": "aws:kms"]))
        try await storage.put(Self.data, key: "a")
        server.route("PUT", "/bucket/a", .status(200, headers: ["ETag": "\"version-7\""]))
        try await storage.put(Self.data, key: "a")
    }

    @Test func `the server's checksum is verified for sent and received bytes`() async throws {
        let server = try TestServer()
        let right = try #require(MessageDigest.sha256(Self.data)).base64EncodedString()
        let wrong = try #require(MessageDigest.sha256(Data())).base64EncodedString()
        let storage = try ObjectStorage(at: server)
        server.route("PUT", "/bucket/a", .status(200, headers: ["x-amz-checksum-sha256": wrong]))
        server.route("GET", "/bucket/a", .bytes(Self.data).header("x-amz-checksum-sha256", wrong))
        var error = await storageError { try await storage.put(Self.data, key: "a") }
        #expect(error?.code == .checksumMismatch)
        error = await storageError { _ = try await storage.get("a") }
        #expect(error?.code == .checksumMismatch)
        server.route("PUT", "/bucket/a", .status(200, headers: ["x-amz-checksum-sha256": right]))
        server.route("GET", "/bucket/a", .bytes(Self.data).header("x-amz-checksum-sha256", right))
        try await storage.put(Self.data, key: "a")
        #expect(try await storage.get("a") == Self.data)
        #expect(server.requests.first?.headers["x-amz-checksum-sha256"] == right)
    }

    /// The fields with checksums of "123456789". The first three are the check values in catalogues of CRCs.
    private static let checksums = [
        ("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="), ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
    ]

    @Test(arguments: checksums)
    func `received bytes are verified against a checksum of any kind`(_ field: String, _ value: String) async throws {
        let server = try TestServer()
        let data = Data("123456789".utf8)
        let storage = try ObjectStorage(at: server)
        server.route("GET", "/bucket/a", .bytes(data).header(field, value))
        #expect(try await storage.get("a") == data)
        server.route("GET", "/bucket/a", .bytes(Data("damaged".utf8)).header(field, value))
        let error = await storageError { _ = try await storage.get("a") }
        #expect(error?.code == .checksumMismatch)
        // The checksum of a multipart object is computed from the checksums of its parts.
        server.route("GET", "/bucket/a", .bytes(data).header(field, value + "-2"))
        #expect(try await storage.get("a") == data)
        server.route(
            "GET", "/bucket/a", .bytes(data).header(field, "AAAA").header("x-amz-checksum-type", "COMPOSITE"))
        #expect(try await storage.get("a") == data)
    }

    // MARK: Clock and region

    @Test func `the clock is adjusted if the server rejects the time`() async throws {
        let server = try TestServer()
        let later = Date(timeIntervalSinceNow: 3600)
        let date = HTTPDate.string(later)
        server.route(
            "PUT", "/bucket/a",
            inTurn: [errorDocument("RequestTimeTooSkewed", status: 403).header("Date", date), Self.stored])
        server.route("HEAD", "/bucket/b", inTurn: [.status(403, headers: ["Date": date]), .status(200)])
        try await ObjectStorage(at: server).put(Self.data, key: "a")
        _ = try await ObjectStorage(at: server).head("b")
        #expect(server.requests.count == 4)
        for request in [server.requests[1], server.requests[3]] {
            let text = try #require(request.headers["x-amz-date"])
            let time = try Date(text, strategy: .iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
            #expect(abs(time.timeIntervalSince(later)) < 120)
            #expect(try request.hasSignature())
        }
        // If the time is correct, the rejection is final.
        server.route(
            "PUT", "/bucket/a", errorDocument("RequestTimeTooSkewed", status: 403).header("Date", HTTPDate.string(Date())))
        let storage = try ObjectStorage(at: server)
        server.forgetRequests()
        let error = await storageError { try await storage.put(Self.data, key: "a") }
        #expect(error?.code == .requestTimeTooSkewed && server.requests.count == 1)
    }

    @Test func `a request is signed for another region if the server names it`() async throws {
        for refusal in [
            errorDocument("PermanentRedirect", status: 301).header("x-amz-bucket-region", "eu-west-1"),
            errorDocument("AuthorizationHeaderMalformed", status: 400, more: "<Region>eu-west-1</Region>"),
        ] {
            let server = try TestServer()
            server.route("PUT", "/bucket/a", inTurn: [refusal, Self.stored, Self.stored])
            let storage = try ObjectStorage(at: server)
            try await storage.put(Self.data, key: "a")
            try await storage.put(Self.data, key: "a")
            #expect(server.requests.count == 3)
            #expect(try server.requests[0].hasSignature())
            for request in server.requests.dropFirst() { #expect(try request.hasSignature(region: "eu-west-1")) }
        }
    }

    // MARK: Redirects

    @Test func `a redirect within the storage is followed with a new signature`() async throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        let file = try directory.write(Self.data, to: "a")
        server.route(
            "PUT", "/bucket/a",
            .redirect(to: "/other/place?x=1", status: 307).header("x-amz-bucket-region", "eu-west-1"))
        server.route("PUT", "/other/place", Self.stored)
        try await ObjectStorage(at: server).put(Self.data, key: "a")
        try await ObjectStorage(at: server).put(fileAt: file, key: "a")
        let followed = server.requests("/other/place")
        #expect(followed.count == 2)
        for request in followed { #expect(try request.body == Self.data && request.hasSignature(region: "eu-west-1")) }
    }

    @Test func `the bucket can be part of the host`() async throws {
        let server = try TestServer()
        server.route("PUT", "/a", .redirect(to: server.url("/b", host: "localhost").absoluteString, status: 307))
        server.route("PUT", "/b", Self.stored)
        var configuration = ObjectStorage.Configuration(
            endpoint: server.url("/", host: "localhost"), region: "us-east-1", bucket: "bucket")
        configuration.addressing = .virtualHost
        let storage = try ObjectStorage(configuration, credentials: .testing)
        try await storage.put(Self.data, key: "a")
        #expect(
            server.requests.map { $0.headers["Host"] } == ["bucket.localhost:\(server.port)", "localhost:\(server.port)"])
        for request in server.requests { #expect(try request.body == Self.data && request.hasSignature()) }
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func `a redirect to another origin is rejected, and nothing is sent to it`(_ status: Int) async throws {
        let server = try TestServer()
        let other = try TestServer()
        let location = other.url("/bucket/a").absoluteString
        server.redirect("/bucket/a", to: location, status: status)
        let provider = ObjectStorageCredentialProvider {
            ObjectStorageCredentials(accessKeyID: "KEY", secretAccessKey: "secret", sessionToken: "token")
        }
        let storage = try ObjectStorage(at: server, credentials: provider)
        var error = await storageError { try await storage.put(Self.data, key: "a") }
        #expect(error?.code == .redirectRefused && error?.statusCode == status)
        error = await storageError { _ = try await storage.get("a") }
        #expect(error?.code == .redirectRefused)
        #expect(other.requests.isEmpty && other.totalConnectionCount == 0)
    }

    // MARK: Documents

    @Test func `a copy fails or is retried if an error document arrives with status 200`() async throws {
        let server = try TestServer()
        let result = TestServer.Response.bytes(
            Data(" \n<?xml version=\"1.0\"?><CopyObjectResult><ETag>\"x\"</ETag></CopyObjectResult>".utf8))
        server.route(
            "PUT", "/bucket/b",
            inTurn: [errorDocument("InternalError", status: 200), result, errorDocument("AccessDenied", status: 200)])
        let storage = try ObjectStorage(at: server)
        #expect(try await storage.copy("a", to: "b").entityTag == "\"x\"")
        let error = await storageError { try await storage.copy("a", to: "b") }
        #expect(error?.code == .accessDenied && error?.statusCode == 200 && error?.requestID == "R1")
        #expect(server.requests.count == 3)
    }

    @Test func `a listing fails if its document is endless, deeply nested or unexpected`() async throws {
        let server = try TestServer()
        let storage = try ObjectStorage(at: server) { ($0.maximumAnswerSize, $0.retryPolicy) = (1 << 20, nil) }
        let deep = String(repeating: "<a>", count: 20) + String(repeating: "</a>", count: 20)
        let listing = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
        let expansion =
            "<!DOCTYPE a [<!ENTITY e \"eeeeee\">]><ListBucketResult>&e;<IsTruncated>false</IsTruncated></ListBucketResult>"
        for text in [deep, listing, expansion, "<html/>", "<ListBucketResult>", "", "no XML"] {
            server.route("GET", "/bucket", .bytes(Data(text.utf8), type: "application/xml"))
            let error = await storageError { _ = try await storage.list() }
            #expect(error?.code == .malformedAnswer, "\(text)")
        }
        for status in [200, 500] {
            var endless = TestServer.Response.pattern(count: 1 << 30)
            endless.status = status
            server.route("GET", "/bucket", endless)
            let error = await storageError { _ = try await storage.list() }
            #expect(error?.code == (status == 200 ? .malformedAnswer : .unexplained), "\(status)")
        }
    }

    @Test func `a listing that repeats a page token fails`() async throws {
        let server = try TestServer()
        let text =
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>"
        server.route("GET", "/bucket", .bytes(Data(text.utf8)))
        let storage = try ObjectStorage(at: server)
        let error = await storageError { for try await _ in storage.pages() {} }
        #expect(error?.code == .malformedAnswer && server.requests.count == 2)
    }

    @Test func `an error contains the server's message in one line, without control characters`() async throws {
        let server = try TestServer()
        server.route(
            "GET", "/bucket/a",
            .bytes(
                Data("<Error><Code>AccessDenied</Code><Message>no\nentry &amp; &#9;more</Message></Error>".utf8), status: 403
            ).header("x-amz-request-id", "R2"))
        let storage = try ObjectStorage(at: server)
        let error = await storageError { _ = try await storage.get("a") }
        #expect(
            error?.description == "AccessDenied: no entry &  more (key: \"a\", bucket: bucket, status: 403, request: R2)")
    }

    // MARK: Credentials and files

    @Test func `nothing is sent without credentials`() async throws {
        let server = try TestServer()
        let storage = try ObjectStorage(
            at: server,
            credentials: .environment(accessKeyID: "CONVOY_NO_SUCH_KEY", secretAccessKey: "CONVOY_NO_SUCH_SECRET"))
        let error = await storageError { _ = try await storage.get("a") }
        #expect(error?.code == .noCredentials && server.requests.isEmpty)
    }

    @Test func `the manager's tokens and cookies are not sent to the storage`() async throws {
        let server = try TestServer()
        let manager = HTTPRequestOperationManager()
        manager.authenticator = Authenticator(token: AccessToken("abc")) { _ in throw CancellationError() }
        manager.cookieStore?.setCookies(["a=b"], from: server.url)
        server.route("GET", "/bucket/a", .bytes(Self.data))
        var configuration = ObjectStorage.Configuration(endpoint: server.url, region: "us-east-1", bucket: "bucket")
        configuration.prefix = ""
        let storage = try ObjectStorage(configuration, credentials: .testing, manager: manager)
        #expect(try await storage.get("a") == Self.data)
        let request = try #require(server.requests.first)
        #expect(try request.hasSignature() && request.headers["Cookie"] == nil)
    }

    @Test func `an upload fails if the file changes between two attempts`() async throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        let file = try directory.write(Self.data, to: "a")
        let storage = try ObjectStorage(at: server)
        server.route("PUT", "/bucket/a") { _ in
            try Data("other bytes!".utf8).write(to: file)
            return errorDocument("SlowDown", status: 503)
        }
        let error = await storageError { try await storage.put(fileAt: file, key: "a") }
        #expect(error?.code == .sourceChanged && error?.key == "a" && server.requests.count == 1)
        let operation = try storage.makePutOperation(fileAt: file, key: "a")
        try Data("again other".utf8).write(to: file)
        storage.manager.enqueue(operation)
        await #expect(throws: ObjectStorageError.self) { try await operation.finished() }
        #expect(server.requests.count == 1)
    }

    @Test func `a file stream fails if the file changes while it is read`() throws {
        let directory = try TemporaryDirectory()
        let url = try directory.write(Self.data, to: "a")
        let file = try SourceFile(url)
        let stream = SourceRangeStream(2..<file.size) { try file.open() }
        var buffer = [UInt8](repeating: 0, count: 4)
        stream.open()
        #expect(stream.read(&buffer, maxLength: 4) == 4 && Data(buffer) == Self.data[2..<6])
        let handle = try FileHandle(forWritingTo: url)
        try handle.seekToEnd()
        try handle.write(contentsOf: Data("more".utf8))
        try handle.close()
        #expect(stream.read(&buffer, maxLength: 4) == -1 && stream.streamStatus == .error)
        #expect((stream.streamError as? UploadError)?.reason == .sourceChanged)
        let again = try stream.replay()
        again.open()
        #expect(again.streamStatus == .error)
    }

    @Test func `only regular files can be sent`() async throws {
        let directory = try TemporaryDirectory()
        let server = try TestServer()
        let storage = try ObjectStorage(at: server)
        let pipe = directory.file("pipe")
        #expect(mkfifo(pipe.path, 0o600) == 0)
        for url in [directory.url, pipe, directory.file("none"), URL(fileURLWithPath: "/dev/null"), server.url] {
            let error = await storageError { try await storage.put(fileAt: url, key: "a") }
            #expect(error?.code == .unreadableSource, "\(url)")
        }
    }
}
