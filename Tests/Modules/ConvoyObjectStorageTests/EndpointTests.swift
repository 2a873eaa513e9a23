import ConvoySupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

@Suite struct EndpointTests {
    private func endpoint(
        _ url: String, bucket: String = "bucket", region: String = "us-east-1",
        _ addressing: ObjectStorage.Addressing = .path
    ) throws -> StorageEndpoint {
        var configuration = ObjectStorage.Configuration(
            endpoint: try #require(URL(string: url)), region: region, bucket: bucket)
        configuration.addressing = addressing
        return try StorageEndpoint(configuration)
    }

    @Test func `object URLs contain the bucket in the path or in the host`() throws {
        let path = try endpoint("http://127.0.0.1:9000")
        #expect(path.address(of: "a b/ü", in: "us-east-1") == "http://127.0.0.1:9000/bucket/a%20b/%C3%BC")
        #expect(path.address(of: nil, in: "us-east-1") == "http://127.0.0.1:9000/bucket")
        let host = try endpoint("https://s3.us-east-1.amazonaws.com", .virtualHost)
        #expect(host.address(of: "a", in: "us-east-1") == "https://bucket.s3.us-east-1.amazonaws.com/a")
        #expect(host.address(of: nil, in: "us-east-1") == "https://bucket.s3.us-east-1.amazonaws.com/")
        #expect(host.address(of: "a", in: "eu-west-1") == "https://bucket.s3.eu-west-1.amazonaws.com/a")
        let under = try endpoint("https://host.example/storage/s3")
        #expect(under.address(of: "a", in: "eu-west-1") == "https://host.example/storage/s3/bucket/a")
    }

    @Test(arguments: ["ftp://host", "http://user@host", "http://host?a=b", "http://"])
    func `an unusable endpoint is rejected`(_ url: String) throws {
        let error = #expect(throws: ObjectStorageError.self) { _ = try endpoint(url) }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test(arguments: ["", "a/b", "a?b", "..", "ü", "a b", "a@b", "a\nb"])
    func `a bucket or region that would change the URL is rejected`(_ bucket: String) throws {
        #expect(throws: ObjectStorageError.self) { _ = try endpoint("http://host", bucket: bucket) }
        #expect(throws: ObjectStorageError.self) { _ = try endpoint("http://host", region: bucket) }
    }

    @Test(arguments: [
        ("https://s3.us-east-1.amazonaws.com", "bucket", ObjectStorage.Addressing.virtualHost),
        ("https://S3.eu-west-1.amazonaws.com", "my-bucket-1", .virtualHost),
        ("https://s3.cn-north-1.amazonaws.com.cn", "bucket", .virtualHost),
        ("https://s3-accelerate.amazonaws.com", "bucket", .virtualHost),
        ("https://s3.us-east-1.amazonaws.com", "a.b", .path), ("https://s3.us-east-1.amazonaws.com", "Bucket", .path),
        ("https://s3.us-east-1.amazonaws.com", "a_b", .path),
        ("https://vpce-1.s3.us-east-1.vpce.amazonaws.com", "bucket", .path),
        ("https://minio.example:9000", "bucket", .path), ("http://[::1]:9000", "bucket", .path),
        ("https://s3.amazonaws.com.evil.example", "bucket", .path), ("https://amazonaws.com", "bucket", .path),
    ])
    func `the addressing follows from the endpoint and the bucket`(
        _ url: String, _ bucket: String, _ addressing: ObjectStorage.Addressing
    ) throws {
        #expect(.automatic(for: try #require(URL(string: url)), bucket: bucket) == addressing)
    }

    @Test func `only requests to the storage's hosts are signed`() throws {
        let amazon = try endpoint("https://s3.us-east-1.amazonaws.com")
        let own = try endpoint("https://minio.example:9000")
        func isIncluded(_ url: String, _ endpoint: StorageEndpoint) throws -> Bool {
            endpoint.includes(try #require(Target(url)))
        }
        for url in [
            "https://s3.us-east-1.amazonaws.com/", "https://bucket.s3.us-east-1.amazonaws.com/",
            "https://s3.eu-west-1.amazonaws.com/", "https://bucket.s3-eu-west-1.amazonaws.com/",
            "https://s3.dualstack.eu-west-1.amazonaws.com/", "https://bucket.s3.amazonaws.com/",
        ] {
            #expect(try isIncluded(url, amazon), "\(url)")
            #expect(try !isIncluded(url, own), "\(url)")
        }
        for url in [
            "http://s3.us-east-1.amazonaws.com/", "https://s3.us-east-1.amazonaws.com:8443/",
            "https://other.s3.us-east-1.amazonaws.com/", "https://ec2-1-2-3-4.compute.amazonaws.com/",
            "https://s3.eu-west-1.compute.amazonaws.com/", "https://bucket.evil.example/",
            "https://s3.amazonaws.com.evil.example/",
            "https://bucket.s3.us-east-1.amazonaws.com.cn/",
        ] { #expect(try !isIncluded(url, amazon), "\(url)") }
        #expect(try isIncluded("https://minio.example:9000/", own))
        #expect(try isIncluded("https://bucket.minio.example:9000/", own))
        #expect(try !isIncluded("https://minio.example/", own))
        #expect(try !isIncluded("https://other.minio.example:9000/", own))
    }

    @Test func `a key that a URL cannot represent is rejected`() throws {
        let configuration = ObjectStorage.Configuration(
            endpoint: try #require(URL(string: "http://host")), region: "us-east-1", bucket: "bucket")
        let storage = try ObjectStorage(configuration, credentials: .testing)
        for key in [
            "", "..", "a/../b", "./a", "a/.", "a/../\u{301}b", "..\u{2F}\u{301}", String(repeating: "a", count: 1025),
        ] {
            let error = #expect(throws: ObjectStorageError.self) { _ = try storage.url(for: key) }
            #expect(error?.code == .invalidKey, "\(key)")
        }
        for key in ["a", "/a//b/", "...", "a..b", "%2e%2e/a"] { _ = try storage.url(for: key) }
    }

    @Test func `the region is derived from the name of an Amazon host`() throws {
        let amazon = try endpoint("https://s3.amazonaws.com")
        func region(_ url: String) throws -> String? { amazon.region(of: try #require(Target(url))) }
        #expect(try region("https://bucket.s3.eu-west-1.amazonaws.com") == "eu-west-1")
        #expect(try region("https://s3-us-west-2.amazonaws.com") == "us-west-2")
        #expect(try region("https://s3.dualstack.eu-west-1.amazonaws.com") == "eu-west-1")
        #expect(try region("https://s3.amazonaws.com") == nil)
        #expect(try region("https://host.example") == nil)
    }
}
