import Convoy
import Foundation
import FoundationNetworking

// The code of the articles about streams and about watching operations; see ArticleCode.swift.

extension ArticleCode {
    static func lines(_ manager: HTTPRequestOperationManager) async throws -> [String] {
        var lines: [String] = []
        // Article: Streams
        let (bytes, response) = try await manager.bytes(.get, "log")
        print(response.statusCode)
        for try await line in bytes.lines {
            if line.isEmpty { break }
            lines.append(line)
        }
        // Article: end
        return lines
    }

    static func chunks(_ manager: HTTPRequestOperationManager) async throws -> (Int, HTTPRequestOperation) {
        var count = 0
        // Article: Streams
        let operation = try manager.makeOperation(.get, "log")
        let body = try operation.bytes()
        manager.enqueue(operation)
        for try await chunk in body.chunks { count += chunk.count }
        // Article: end
        return (count, operation)
    }

    static func upload(_ manager: HTTPRequestOperationManager) async throws {
        // Article: Streams
        let (source, _) = try await manager.bytes(.get, "log")
        try await manager.upload("copy", method: .put, from: .sequence(source.chunks))
        // Article: end
    }

    static func progress(_ operation: HTTPRequestOperation) async {
        // Article: Streams
        for await progress in operation.transferProgressUpdates {
            print(progress.bytesReceived, "of", progress.bytesExpectedToReceive ?? 0)
        }
        // Article: end
    }

    static func fastest(_ manager: HTTPRequestOperationManager) async throws -> HTTPRequestOperation? {
        // Article: Streams
        let mirrors = try ["log", "missing"].map { try manager.makeOperation(.get, $0) }
        let fastest = try await manager.withBatch(of: mirrors) { finished in
            await finished.first { $0.error == nil }
        }
        // Article: end
        return fastest
    }

    static func monitor(_ manager: HTTPRequestOperationManager) -> EventMonitor {
        // Article: Watching
        let monitor = EventMonitor { events in
            for event in events { print(event) }
        }
        manager.eventMonitors = [monitor]
        // Article: end
        return monitor
    }

    static func log(_ manager: HTTPRequestOperationManager) {
        // Article: Watching
        manager.eventMonitors = [
            EventMonitor.logging(at: .info) { level, message, metadata in
                print(level, message, metadata["operation"] ?? "")
            }
        ]
        // Article: end
    }

    static func archive(_ manager: HTTPRequestOperationManager, _ directory: URL) async throws -> String {
        // Article: Watching
        let recorder = HARRecorder()
        manager.eventMonitors = [recorder.monitor]
        let page: String = try await manager.get("page")
        try await recorder.write(to: directory.appendingPathComponent("requests.har"))
        // Article: end
        return page
    }

    static func trace(_ manager: HTTPRequestOperationManager, _ received: String) -> TraceContext {
        // Article: Watching
        let caller = TraceContext(traceparent: received) ?? .root()
        manager.traceContextProvider = { operation in caller.child() }
        // Article: end
        return caller
    }

    static func activity() {
        // Article: Watching
        let activity = NetworkActivityMonitor.shared
        activity.isEnabled = true
        activity.activityHandler = { isVisible in print(isVisible ? "busy" : "idle") }
        // Article: end
    }

    static func view(
        _ view: some TransferProgressView, _ operation: HTTPRequestOperation, _ queue: DispatchQueue
    ) -> ViewBinding {
        // Article: Watching
        let binding = view.setProgressWithDownloadProgress(of: operation, on: queue)
        // Article: end
        return binding
    }
}
