import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// A download into a file that is paused half-way, resumed with a range, and compared with the original.
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
                // Paused here, and not by the waiting thread, as the server does not wait.
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
        // Data that was in flight at the pause still arrives; after that nothing may.
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
        return stage.check("resumed: the server was asked for \(Printable.line(range))", isResumed) && isRight
    }

    private static func verify(_ file: URL, _ server: DemoServer, _ stage: DemoStage) -> Bool {
        guard let wanted = MessageDigest.sha256(server.file), let data = try? Data(contentsOf: file),
            let digest = MessageDigest.sha256(data)
        else { return stage.check("the file can be read", false) }
        let isRight = stage.check("\(data.count) bytes, with the SHA-256 of the original:", digest == wanted)
        // On a separate line, so that it fits 80 columns.
        stage.note(digest.hexadecimalString)
        return isRight
    }
}
