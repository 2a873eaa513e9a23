import ConvoyTransport
import Foundation

/// The state of an attempt's connection: its holds, its end, and the decision that the attempt made before the end.
/// This value type performs no I/O and is used on the network thread.
struct AttemptState {
    /// A decision of the attempt itself, which then cancels its connection.
    enum Intent {
        /// The received bytes are unusable, so the complete body must be requested.
        case askForWhole
        /// Nothing of the request was sent, so the next attempt sends it after the pause.
        case sendLater
        /// The body was complete before the transfer.
        case succeed
        case fail(URLError)
        /// Delivers the response without the rest of its body.
        case cut(URLError)
    }

    /// The ways in which a connection can end.
    enum End: Sendable {
        case finished
        case failed(URLError)
        case cancelled
    }

    /// The consequence of the end of a connection.
    enum Conclusion {
        /// The response has arrived. If its body was truncated, `cut` is the reason.
        case received(cut: URLError?)
        case failed(URLError)
        case stopped
        /// The next attempt requests the complete body if `whole` is true; otherwise, it requests the same bytes again.
        case repeated(whole: Bool)
    }

    private(set) var intent: Intent?
    /// The end of the connection, which can occur while it is held; nil while it is open.
    private(set) var end: End?
    /// The holds of the transfer.
    var flow = TransferState()
    /// Whether the response may be truncated if its body does not end or is too long.
    var mayCutBody = false
    /// Whether the request may have been sent with credentials, so that the server must prove that it knows the
    /// password.
    var isAuthorized = false

    var hasEnded: Bool { end != nil }

    /// Whether the connection is open and nothing has been decided, so that its callbacks count.
    var isReceiving: Bool { end == nil && intent == nil }

    /// Records a decision. Returns false if an earlier decision exists, which remains in effect.
    mutating func decide(_ intent: Intent) -> Bool {
        guard self.intent == nil else { return false }
        self.intent = intent
        return true
    }

    /// Withdraws a decision, because the connection continues.
    mutating func withdraw() { intent = nil }

    /// Records that received bytes were lost, which overrides any earlier decision.
    mutating func loseBytes(_ failure: URLError) { intent = .fail(failure) }

    /// Records the end of the connection. Returns false if it had already ended.
    mutating func finish(_ end: End) -> Bool {
        guard self.end == nil else { return false }
        self.end = end
        return true
    }

    /// The consequence of the end. A decision takes precedence, even if the connection ended before it was cancelled.
    var conclusion: Conclusion {
        switch (intent, end ?? .finished) {
        case (.askForWhole, _): .repeated(whole: true)
        case (.sendLater, _): .repeated(whole: false)
        case (.fail(let error), _): .failed(error)
        case (.cut(let error), _): .received(cut: error)
        case (.succeed, _), (nil, .finished): .received(cut: nil)
        case (nil, .failed(let error)): error.leavesRest ? .received(cut: error) : .failed(error)
        case (nil, .cancelled): .stopped
        }
    }
}
