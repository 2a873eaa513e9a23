import ConvoySharedQueue
import Foundation

/// `convoy queue wait`: waits until entries have ended, and prints them.
enum QueueWait {
    static func run(_ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter) throws(ToolError) -> ExitStatus {
        let ids = try QueueFilter.ids(options.arguments.dropFirst(), options)
        let group = options.value("group"), limit = try QueueTime.seconds("within", options)
        guard ids.isEmpty == (group != nil) else { throw options.usage("queue wait takes either entry IDs or --group") }
        try QueueCall.connect(queue, printer.display, options)
        let states = try QueueCall.result {
            try await within(limit) {
                guard let group else {
                    var states: Set<WorkState> = []
                    for id in ids {
                        let entry = try await queue.waitForEntry(id)
                        printer.print(entry)
                        states.insert(entry.state)
                    }
                    return states
                }
                let counts = try await queue.waitForGroup(group)
                printer.print(counts)
                return Set(counts.keys)
            }
        }
        return states.isSubset(of: [.done]) ? .success : .failure
    }

    /// Runs a closure, and cancels it after a number of seconds.
    private static func within<Value: Sendable>(
        _ limit: TimeInterval?, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        guard let limit else { return try await body() }
        return try await withThrowingTaskGroup(of: Value.self) { group in
            group.addTask(operation: body)
            group.addTask {
                try await Task.sleep(for: .seconds(limit))
                throw ToolError(
                    text: "not all entries have ended after \(QueueText.number(limit)) s", status: .failed(.timeout))
            }
            defer { group.cancelAll() }
            guard let value = try await group.next() else { throw CancellationError() }
            return value
        }
    }
}
