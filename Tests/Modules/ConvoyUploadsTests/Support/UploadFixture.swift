import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// A file to upload, in a separate directory.
struct UploadFixture {
    let directory: TemporaryDirectory
    let file: URL
    let bytes: Data

    init(_ count: Int, seed: UInt64 = 7) throws {
        directory = try TemporaryDirectory(prefix: "convoy-upload", isInMemory: true)
        var generator = SplitMix64(seed: seed)
        bytes = generator.data(count: count)
        file = directory.file("source.bin")
        try bytes.write(to: file)
    }

    /// Creates an upload of the file with tus and short delays.
    func upload(
        to url: URL, _ uploadProtocol: UploadProtocol = .tus, chunk: Int64? = nil, retries: Int = 0
    ) -> UploadOperation {
        let upload = UploadOperation(request: URLRequest(url: url), file: file)
        upload.uploadProtocol = uploadProtocol
        if let chunk { upload.chunkSize = .fixed(chunk) }
        upload.settleForTests(retries: retries)
        return upload
    }

    /// The journals beside the file.
    var journals: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.path)) ?? []).filter {
            $0.hasSuffix(".convoyupload")
        }
    }
}

extension UploadOperation {
    func settleForTests(retries: Int = 0) {
        completionQueue = .global()
        patience = 0.2
        idleTimeout = 20
        guard retries > 0 else { return }
        var policy = RetryPolicy(maximumRetryCount: retries)
        policy.initialDelay = 0.001
        policy.maximumDelay = 0.01
        policy.maximumGateDuration = 0
        retryPolicy = policy
    }

    /// The reason of the upload's error.
    var reason: UploadError.Reason? { (error as? UploadError)?.reason }
}

/// Waits until the operation has finished, with or without an error.
func finish(_ operation: UploadOperation) async { try? await operation.finished() }
