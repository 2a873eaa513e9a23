import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// A server, and a manager whose operations collect metrics.
struct MetricsBench {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route(nil, "/quick", .text("quick"))
        server.route(nil, "/slow", .text("slow").delayed(0.3))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.collectsMetrics = true
    }

    func operation(_ path: String) throws -> HTTPRequestOperation { try manager.makeOperation(.get, path) }

    /// Returns the metrics of an operation after it has ended, with or without an error.
    func metrics(_ operation: HTTPRequestOperation) async throws -> OperationMetrics {
        _ = try? await operation.finished()
        let metrics = try #require(operation.metrics)
        expectConsistency(metrics)
        return metrics
    }
}

/// Checks the invariants of all metrics.
func expectConsistency(_ metrics: OperationMetrics, sourceLocation: SourceLocation = #_sourceLocation) {
    var end: TimeInterval = 0
    for wait in metrics.waits {
        #expect(wait.start >= end && wait.duration >= 0, "\(metrics)", sourceLocation: sourceLocation)
        end = wait.start + wait.duration
    }
    #expect(end <= metrics.duration, "\(metrics)", sourceLocation: sourceLocation)
    #expect(metrics.waitDuration + metrics.workDuration == metrics.duration, sourceLocation: sourceLocation)
    let sum = WaitReason.allCases.reduce(0) { $0 + metrics.waitDuration(for: $1) }
    #expect(sum == metrics.waitDuration, sourceLocation: sourceLocation)
    if let start = metrics.start { #expect(start <= metrics.duration, sourceLocation: sourceLocation) }
}

/// Checks that the operation waited for a reason during most of a time, and longer than for all other reasons. (A wait
/// is recorded slightly later than its cause begins.)
func expect(
    _ reason: WaitReason, of metrics: OperationMetrics, toHaveTaken delay: TimeInterval,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let duration = metrics.waitDuration(for: reason)
    #expect(duration >= delay * 0.75, "\(reason) in \(metrics)", sourceLocation: sourceLocation)
    #expect(duration > metrics.waitDuration - duration, "\(reason) in \(metrics)", sourceLocation: sourceLocation)
}
