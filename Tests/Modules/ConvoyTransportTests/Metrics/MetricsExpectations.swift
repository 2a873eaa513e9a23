import ConvoyTransport
import Foundation
import Testing

/// Checks the invariants of all metrics.
func expectConsistency(_ metrics: TransactionMetrics, sourceLocation: SourceLocation = #_sourceLocation) {
    let moments = [
        metrics.nameFound, metrics.connected, metrics.tunnelEstablished, metrics.secured, metrics.firstByte,
        metrics.duration,
    ].compactMap(\.self)
    #expect(moments == moments.sorted() && moments.allSatisfy { $0 >= 0 }, "\(metrics)", sourceLocation: sourceLocation)
    if let sent = metrics.requestSent {
        let earlier = moments.dropLast(metrics.firstByte == nil ? 1 : 2).last ?? 0
        #expect(sent >= earlier && sent <= metrics.duration, "\(metrics)", sourceLocation: sourceLocation)
    }
    let durations = TransactionPhase.allCases.map(metrics.duration(of:))
    #expect(durations.allSatisfy { $0 >= 0 }, "\(metrics)", sourceLocation: sourceLocation)
    // The phases add up exactly to the total duration.
    #expect(durations.reduce(0, +) == metrics.duration, "\(metrics)", sourceLocation: sourceLocation)
}

/// Checks that a phase took at least as long as the server delayed it, with a tolerance for the time in which the two
/// sides detect a connection, and longer than all other phases together.
func expect(
    _ phase: TransactionPhase, of metrics: TransactionMetrics, toHaveTaken delay: TimeInterval,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    expectConsistency(metrics, sourceLocation: sourceLocation)
    let duration = metrics.duration(of: phase)
    #expect(duration >= delay * 0.8, "\(phase) took \(duration): \(metrics)", sourceLocation: sourceLocation)
    #expect(
        duration > metrics.duration - duration, "\(phase) took \(duration): \(metrics)", sourceLocation: sourceLocation)
}
