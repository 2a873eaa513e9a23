import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// A demo that logs in, fetches a profile with the token, and downloads the report that the profile names. Its three
/// operations are enqueued together, and each is prepared with the result of the previous one.
enum ChainDemo {
    private struct Login: Decodable { let token: String }
    private struct Profile: Decodable { let report: String }
    private struct Report: Decodable { let title: String }

    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        stage.title("A chain: log in, get the profile with the token, fetch the report that it names")
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "convoy.demo")
        manager.completionGroup = DispatchGroup()

        let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
        let profile = manager.operation(.get, "me", as: Profile.self)
        profile.depend(on: login) { login, request in
            request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
        }
        let report = manager.operation(.get, "me", as: Report.self)
        report.depend(on: login, profile) { login, profile, request in
            request.url = try manager.url(for: profile.report)
            request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
        }
        tell(stage, login, "token") { $0.token }
        tell(stage, profile, "report") { $0.report }
        tell(stage, report, "title") { $0.title }
        // Enqueue the operations in reverse: the dependencies determine the order.
        manager.enqueue([report, profile, login])
        Interruption.shared.onInterrupt { manager.operationQueue.cancelAllOperations() }
        guard manager.completionGroup?.wait(timeout: .now() + DemoStage.patience) == .success else {
            return stage.check("the chain has finished", false)
        }
        let paths = server.server.requests.map(\.path)
        let isOrdered = stage.check(
            "enqueued last first, sent in order: \(paths.map { Printable.line($0) }.joined(separator: ", "))",
            paths == ["/login", "/me", DemoServer.reportPath])
        let isRight = stage.check(
            "the report has the expected title", (try? report.result?.get().title) == "Notes on the engine")
        return isOrdered && isRight
    }

    private static func describe(_ operation: HTTPRequestOperation) -> String {
        let path = operation.request.url?.path ?? ""
        return "\(operation.request.httpMethod ?? "GET") \(path) \(operation.statusCode.map(String.init) ?? "-")"
    }

    /// Prints the result of an operation when it has finished.
    private static func tell<Value>(
        _ stage: DemoStage, _ typed: TypedOperation<Value>, _ key: String, _ text: @escaping @Sendable (Value) -> String
    ) {
        let operation = typed.operation
        typed.setCompletionHandler { [weak operation] result in
            guard let operation else { return }
            switch result {
            case .success(let value):
                stage.step("\(describe(operation)): \(key) \"\(Printable.line(text(value)))\"")
            case .failure(let error): stage.step("\(describe(operation)): \(ErrorText.line(for: error))")
            }
        }
    }
}

/// Many downloads, at most six concurrent, with one completion.
enum BatchDemo {
    private struct Tally {
        var progress: [Int] = []
        var completions = 0
        var finishedAtCompletion = 0
    }

    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        let count = DemoServer.fileCount
        stage.title("A batch: \(count) downloads, at most 6 concurrent, with one completion")
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.operationQueue.maxConcurrentOperationCount = 6
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "convoy.demo")

        let operations: [HTTPRequestOperation]
        do {
            operations = try (0..<count).map { try manager.makeOperation(.get, DemoServer.path(of: $0)) }
        } catch {
            return stage.check(ErrorText.line(for: error), false)
        }
        let tally = ContendedLock(Tally())
        let isDone = DispatchSemaphore(value: 0)
        let batch = URLConnectionOperation.batch(
            of: operations, completionQueue: manager.completionQueue,
            progress: { finished, total in
                tally.withLock { $0.progress.append(finished) }
                stage.bar("files", Double(finished) / Double(total), "\(finished) of \(total)")
                if finished % 8 == 0, !stage.display.isLive { stage.step("\(finished) of \(total) files") }
            },
            completion: { members in
                tally.withLock { tally in
                    tally.completions += 1
                    tally.finishedAtCompletion = members.filter(\.isFinished).count
                }
                isDone.signal()
            })
        manager.enqueue(batch)
        Interruption.shared.onInterrupt { manager.operationQueue.cancelAllOperations() }
        let isInTime = isDone.wait(timeout: .now() + DemoStage.patience) == .success
        stage.display.clear()
        guard Interruption.shared.status == nil else { return false }

        let result = tally.withLock { $0 }
        let bytes = operations.reduce(0) { $0 + ($1.responseData?.count ?? 0) }
        let isWhole = operations.enumerated().allSatisfy { number, operation in
            operation.responseData.flatMap { MessageDigest.sha256($0) } == DemoServer.digest(of: number)
        }
        let peak = server.server.peakActiveRequestCount
        var isRight = stage.check(
            "one completion, after all \(count) files; progress counted 1 to \(count)",
            isInTime && result.completions == 1 && result.finishedAtCompletion == count
                && result.progress == Array(1...count))
        isRight = stage.check("\(Amounts.bytes(Int64(bytes))), every SHA-256 correct", isWhole) && isRight
        return stage.check("the server saw at most \(peak) concurrent requests", peak <= 6) && isRight
    }
}

/// A file download that is paused half-way, resumed with a range request, and compared with the original.
enum PauseDemo {
    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        let size = Int64(DemoServer.fileSize)
        stage.title("A download of \(Amounts.bytes(size)): paused half-way, resumed, checked")
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("convoy-demo-\(UUID().uuidString)", isDirectory: true)
        do {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        } catch {
            return stage.check("a directory for the file: \(ErrorText.line(for: error))", false)
        }
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appendingPathComponent("file")
        return download(server, stage, to: file) && verify(file, server, stage)
    }

    private static func download(_ server: DemoServer, _ stage: DemoStage, to file: URL) -> Bool {
        let operation = HTTPRequestOperation(request: URLRequest(url: server.fileURL))
        operation.outputStream = FileOutputStream(fileURL: file)
        operation.completionQueue = DispatchQueue(label: "convoy.demo")
        let half = DispatchSemaphore(value: 0), isDone = DispatchSemaphore(value: 0)
        let arrived = ContendedLock<Int64>(0)
        operation.downloadProgressHandler = { [weak operation] _, total, expected in
            let before = arrived.withLock { arrived in
                defer { arrived = total }
                return arrived
            }
            let middle = Int64(DemoServer.fileSize) / 2
            if before < middle, total >= middle {
                // Pause here, because the download could finish before the waiting thread pauses it.
                operation?.pause()
                half.signal()
            }
            stage.bar("file", Double(total) / Double(expected ?? total), Amounts.bytes(total))
        }
        operation.setCompletionHandler(success: { _, _ in isDone.signal() }, failure: { _, _ in isDone.signal() })
        let queue = OperationQueue()
        queue.addOperation(operation)
        Interruption.shared.onInterrupt {
            operation.cancel()
            half.signal()
        }

        guard half.wait(timeout: .now() + DemoStage.patience) == .success, Interruption.shared.status == nil else {
            operation.cancel()
            return stage.check("half of the file has arrived", false)
        }
        // Data in flight at the time of the pause still arrives; after that, nothing may.
        Thread.sleep(forTimeInterval: 0.2)
        let kept = arrived.withLock { $0 }
        stage.step("paused with \(Amounts.bytes(kept)) in the file")
        Thread.sleep(forTimeInterval: 0.4)
        var isRight = stage.check(
            "nothing arrives while it is paused", operation.isPaused && arrived.withLock { $0 } == kept)
        operation.resume()
        isRight = isDone.wait(timeout: .now() + DemoStage.patience) == .success && isRight
        stage.display.clear()
        if let error = operation.error { return stage.check(ErrorText.line(for: error), false) }

        let ranges = server.server.requests.filter { $0.path == DemoServer.filePath }.map { $0.fields["range"] }
        let range = ranges.last.flatMap { $0 } ?? "nothing"
        let isResumed = ranges.count == 2 && ranges.first == .some(nil) && range.hasPrefix("bytes=")
        return stage.check("resumed: the request has the range \(Printable.line(range))", isResumed) && isRight
    }

    private static func verify(_ file: URL, _ server: DemoServer, _ stage: DemoStage) -> Bool {
        guard let wanted = MessageDigest.sha256(server.file), let data = try? Data(contentsOf: file),
            let digest = MessageDigest.sha256(data)
        else { return stage.check("the file can be read", false) }
        let isRight = stage.check("\(data.count) bytes, with the SHA-256 of the original:", digest == wanted)
        // Print the digest on a separate line, so that it fits 80 columns.
        stage.note(digest.hexadecimalString)
        return isRight
    }
}
