import ConvoyOperations
import ConvoyUploads
import Foundation
import FoundationNetworking

/// Uploads a file with tus like an application, and prints "uploaded" or the reason for the failure.
enum UploadCommands {
    struct Usage: Error {}

    static func run(_ arguments: [String]) async throws {
        guard arguments.count == 3, let url = URL(string: arguments[0]), let chunk = Int64(arguments[2]) else {
            throw Usage()
        }
        let upload = UploadOperation(request: URLRequest(url: url), file: URL(fileURLWithPath: arguments[1]))
        upload.uploadProtocol = .tus
        if chunk > 0 { upload.chunkSize = .fixed(chunk) }
        var policy = RetryPolicy(maximumRetryCount: 50)
        (policy.initialDelay, policy.maximumDelay, policy.maximumGateDuration) = (0.005, 0.05, 0)
        upload.retryPolicy = policy
        upload.completionQueue = .global()
        try? await upload.finished()
        let text = upload.error.map { "\($0)" } ?? "uploaded"
        FileHandle.standardOutput.write(Data((text + "\n").utf8))
    }
}
