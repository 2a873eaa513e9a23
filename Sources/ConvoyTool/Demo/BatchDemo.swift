import Convoy
import ConvoySupport
import Foundation

/// Many downloads, six at a time, with one completion.
enum BatchDemo {
    private struct Tally {
        var progress: [Int] = []
        var completions = 0
        var finishedAtCompletion = 0
    }

    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        let count = DemoServer.fileCount
        stage.title("A batch: \(count) downloads, 6 at a time, with one completion")
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
        return stage.check("the server saw at most \(peak) requests at a time", peak <= 6) && isRight
    }
}
