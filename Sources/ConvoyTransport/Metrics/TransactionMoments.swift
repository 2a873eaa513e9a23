import Foundation

/// When the phases of a request ended, in seconds from its start; nil for what was not reached.
struct TransactionMoments: Sendable, Hashable {
    /// libcurl has taken up the request: the look-up of the name begins, or a connection that is there was chosen.
    var connectionBegan: TimeInterval?
    var nameFound: TimeInterval?
    var connected: TimeInterval?
    var tunnelEstablished: TimeInterval?
    var secured: TimeInterval?
    var requestSent: TimeInterval?
    var firstByte: TimeInterval?
    var ended: TimeInterval = 0

    /// Whether the way to the server has these phases.
    var usesTunnel = false
    var usesTLS = false

    /// How long each phase took, in their order. What came after the last moment belongs to the phase that was under way.
    var durations: [(phase: TransactionPhase, duration: TimeInterval)] {
        let sent = firstByte.map { min(requestSent ?? $0, $0) } ?? requestSent
        let ends: [(TransactionPhase, TimeInterval?, isPossible: Bool)] = [
            (.blocked, connectionBegan, true), (.nameLookup, nameFound, true), (.connect, connected, true),
            (.tunnel, tunnelEstablished, usesTunnel), (.tls, secured, usesTLS), (.send, sent, true),
            (.wait, firstByte, true), (.receive, firstByte == nil ? nil : ended, true),
        ]
        let last = ends.lastIndex { $0.1 != nil } ?? -1
        let current = ends.indices.first { $0 > last && ends[$0].isPossible }
        var before: TimeInterval = 0
        return ends.indices.map { index in
            let end = index == current ? ended : ends[index].1 ?? before
            defer { before = max(before, end) }
            return (ends[index].0, max(0, end - before))
        }
    }
}
