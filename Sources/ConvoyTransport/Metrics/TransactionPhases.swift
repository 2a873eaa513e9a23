import Foundation

/// When the phases of a request ended, in seconds from its start, up to the first byte of the response; nil for those that
/// there were not.
package struct TransactionPhases: Sendable {
    package let nameLookup, connect, tunnel, tls, send, wait: TimeInterval?

    init(_ moments: TransactionMoments, isReusedConnection: Bool) {
        (nameLookup, connect) = isReusedConnection ? (nil, nil) : (moments.nameFound, moments.connected)
        (tunnel, tls) = isReusedConnection ? (nil, nil) : (moments.tunnelEstablished, moments.secured)
        send = moments.requestSent.flatMap { sent in sent <= moments.firstByte ?? sent ? sent : nil }
        wait = moments.firstByte
    }
}

extension TransactionMetrics {
    /// When the phases up to the first byte of the response ended.
    package var phases: TransactionPhases { TransactionPhases(moments, isReusedConnection: isReusedConnection) }
}
