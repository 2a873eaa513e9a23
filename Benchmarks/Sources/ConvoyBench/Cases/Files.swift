import CLimit
import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// A large file, downloaded from the server.
    static let download = Case(
        name: "download", summary: "1 GiB to a file",
        trials: [
            Trial(
                name: "download", unit: "MiB/s", limit: "curl",
                subjects: [
                    Subject("curl", needs: "curl") { try FileTransfer($0).downloadWithCurl() },
                    Subject(Trial.convoy) { try FileTransfer($0).downloadWithConvoy() },
                    Subject("urlsession") { try FileTransfer($0).downloadWithURLSession() },
                    Subject("aria2c", needs: "aria2c") { try FileTransfer($0).downloadWithAria() },
                ])
        ],
        bars: [
            .atLeast(1, "of curl -o") { $0.ratio("download", to: "curl") },
            .atMost(4, "MiB of growth of resident memory") { $0.detail("grown MiB", "download") },
        ], needsLargeFile: true)

    /// A large file, uploaded to the server.
    static let upload = Case(
        name: "upload", summary: "1 GiB from a file, to a server that discards the bytes",
        trials: [
            Trial(
                name: "upload", unit: "MiB/s", limit: "curl",
                subjects: [
                    Subject("curl", needs: "curl") { try FileTransfer($0).uploadWithCurl() },
                    Subject(Trial.convoy) { try FileTransfer($0).uploadWithConvoy() },
                ])
        ],
        bars: [
            .atLeast(0.95, "of curl -T") { $0.ratio("upload", to: "curl") },
            .atMost(4, "MiB of growth of resident memory") { $0.detail("grown MiB", "upload") },
        ], needsLargeFile: true)
}

extension Case {
    /// A large file, uploaded to a tus server that discards the bytes, with a journal and a digest of the confirmed
    /// bytes.
    static let resumableUpload = Case(
        name: "upload-operation", summary: "1 GiB from a file by tus, with a journal, beside a plain upload",
        trials: [
            Trial(
                name: "upload-operation", unit: "MiB/s", limit: "curl",
                subjects: [
                    Subject("curl", needs: "curl") { try FileTransfer($0).uploadWithCurl() },
                    Subject(Trial.convoy) { try FileTransfer($0).uploadResumably() },
                ])
        ],
        bars: [
            .atLeast(0.95, "of curl -T") { $0.ratio("upload-operation", to: "curl") },
            .atMost(4, "MiB of growth of resident memory") { $0.detail("grown MiB", "upload-operation") },
        ], needsLargeFile: true)
}

/// One transfer of the large file.
private struct FileTransfer {
    let context: Context
    private let file: LargeFile
    private var target: URL { file.target }

    init(_ context: Context) throws {
        self.context = context
        file = try LargeFile(context)
    }

    // MARK: Convoy

    func downloadWithConvoy() throws -> Sample {
        let manager = self.manager(context.url)
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = FileOutputStream(fileURL: target)
        let sample = try file.measure { try run(operation, manager) }
        return try file.verified(sample)
    }

    func uploadWithConvoy() throws -> Sample {
        let manager = self.manager(context.url)
        var request = URLRequest(url: context.sinkURL)
        request.httpMethod = "PUT"
        request.httpBodyStream = InputStream(url: context.largeFile)
        request.setValue("\(Int(file.mebibytes) << 20)", forHTTPHeaderField: "Content-Length")
        let operation = manager.makeOperation(request: request)
        return try file.measure { try run(operation, manager) }
    }

    func uploadResumably() throws -> Sample {
        let manager = self.manager(context.url)
        // Create objects with one-time cost in a first upload.
        let small = UploadOperation(request: URLRequest(url: context.sinkURL), data: Data(count: 1 << 20))
        let upload = UploadOperation(request: URLRequest(url: context.sinkURL), file: context.largeFile)
        for operation in [small, upload] {
            operation.uploadProtocol = .tus
            operation.completionQueue = manager.completionQueue
        }
        try run(small, manager)
        return try file.measure { try run(upload, manager) }
    }

    /// Returns a manager that has already made a request, so that one-time costs are not measured.
    private func manager(_ url: URL) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: url)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        let countdown = Countdown(1)
        manager.get("small") { _, _ in
            countdown.done()
        } failure: { _, _ in
            countdown.done(false)
        }
        _ = countdown.wait()
        return manager
    }

    private func run(_ operation: HTTPRequestOperation, _ manager: HTTPRequestOperationManager) throws {
        let countdown = Countdown(1)
        operation.setCompletionHandler { _, _ in
            countdown.done()
        } failure: { _, error in
            Report.note("\(error)")
            countdown.done(false)
        }
        manager.enqueue(operation)
        try BenchError.check(failed: countdown.wait(), of: 1)
    }

    // MARK: URLSession

    func downloadWithURLSession() throws -> Sample {
        let session = URLSession(configuration: .ephemeral)
        let warmUp = Countdown(1)
        session.dataTask(with: context.url.appendingPathComponent("small")) { _, _, error in
            warmUp.done(error == nil)
        }.resume()
        _ = warmUp.wait()
        let target = target
        let sample = try file.measure {
            let countdown = Countdown(1)
            session.downloadTask(with: context.url.appendingPathComponent("large")) { file, _, _ in
                guard let file else { return countdown.done(false) }
                let isMoved: Void? = try? FileManager.default.moveItem(at: file, to: target)
                countdown.done(isMoved != nil)
            }.resume()
            try BenchError.check(failed: countdown.wait(), of: 1)
        }
        return try file.verified(sample)
    }

    // MARK: Programs

    func downloadWithCurl() throws -> Sample {
        try file.verified(
            curl(["-o", target.path, context.url.appendingPathComponent("large").absoluteString]))
    }

    func uploadWithCurl() throws -> Sample {
        try curl(["-T", context.largeFile.path, context.sinkURL.absoluteString])
    }

    /// Runs curl, whose own clock excludes its startup.
    private func curl(_ arguments: [String]) throws -> Sample {
        let run = try External.whole(
            "curl", ["-q", "-s", "-S", "-f", "-w", "%{time_total}"] + arguments, context: context)
        guard let seconds = Double(run.output) else { throw BenchError("curl: \(run.output)") }
        return file.sample(Cost(seconds: seconds, cpuSeconds: run.cost.cpuSeconds), peak: run.peakKilobytes)
    }

    func downloadWithAria() throws -> Sample {
        let run = try External.whole(
            "aria2c",
            [
                "--no-conf", "-q", "--file-allocation=none", "--allow-overwrite=true", "-d", context.scratch.path, "-o",
                target.lastPathComponent, context.url.appendingPathComponent("large").absoluteString,
            ], context: context)
        return try file.verified(file.sample(run.cost, peak: run.peakKilobytes))
    }
}
