import ConvoyTransport
import Foundation

/// The state of an attempt's connection: what holds it, how it ended, and what the attempt has decided before its end. A
/// value without I/O, used on the network thread.
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

    /// How a connection ends.
    enum End: Sendable {
        case finished
        case failed(URLError)
        case cancelled
    }

    /// What the end of the connection means.
    enum Conclusion {
        /// The response has arrived, except for a rest that was not awaited for this reason.
        case received(cut: URLError?)
        case failed(URLError)
        case stopped
        /// The next attempt requests the complete body, if `whole` is true, or the same bytes again.
        case repeated(whole: Bool)
    }

    private(set) var intent: Intent?
    /// How the connection ended, possibly while it was held; nil while it is open.
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

    /// Records a decision. Returns false if there is an earlier one, which stays.
    mutating func decide(_ intent: Intent) -> Bool {
        guard self.intent == nil else { return false }
        self.intent = intent
        return true
    }

    /// Withdraws a decision, because the connection goes on.
    mutating func withdraw() { intent = nil }

    /// Records that received bytes were lost, which no earlier decision outweighs.
    mutating func loseBytes(_ failure: URLError) { intent = .fail(failure) }

    /// Records the end of the connection. Returns false if it had already ended.
    mutating func finish(_ end: End) -> Bool {
        guard self.end == nil else { return false }
        self.end = end
        return true
    }

    /// What follows from the end. A decision takes precedence, even if the connection ended before it was cancelled.
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
