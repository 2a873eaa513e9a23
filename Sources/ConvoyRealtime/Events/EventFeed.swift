import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The connections of an `EventSource`, and the waits between them, across its pauses.
///
/// Decisions are made under one lock, and their effects are performed after the lock is released. Each connection has a
/// number, which identifies late events of an earlier connection.
final class EventFeed: @unchecked Sendable {
    /// The phase of a source.
    enum Phase {
        /// The source has not started, is paused, or has ended.
        case idle
        /// The source has a connection, or is making one.
        case connected
        /// The source is paused with its connection, because the request must not be sent again.
        case held
        /// The source is waiting to reconnect.
        case waiting
        /// The source ends once the handlers have received everything.
        case ending
    }

    struct State {
        var phase = Phase.idle
        var work: AttemptContext?
        /// Whether the operation has stopped the attempt.
        var isStopping = false
        /// Whether the user has closed the source.
        var isClosing = false
        /// The number of the current connection, or of the last one.
        var number = 0
        var connection: HTTPRequestOperation?
        var end = ConnectionEnd()
        var lastEventID: String?
        var retryInterval: TimeInterval?
        /// The number of consecutive connections without an event.
        var failures = 0
        var wait = Wait()
    }

    /// The triggers that end the wait before the next connection.
    struct Wait: Sendable {
        /// The observation that ends the wait when the network returns. Releasing it cancels the observation.
        var network: (any AnyObject & Sendable)?
        /// The timer that ends the wait at its deadline.
        var timer: (any ClockTimer)?

        /// Cancels the triggers. Do not call it under the lock.
        consuming func end() { timer?.cancel() }
    }

    /// The source, set by its initializer.
    weak var source: EventSource?
    let settings = Locked(EventSourceSettings())
    let delivery = EventDelivery()
    let states = EventSourceStates()
    let state = Locked(State())

    // MARK: Connecting

    /// Opens the next connection. Can be called on any thread.
    func connect() {
        guard let source else { return }
        let (number, lastEventID, settings) = (
            state.withLock { state -> Int in
                state.number += 1
                state.phase = .connected
                state.end = ConnectionEnd()
                return state.number
            }, lastEventID, settings.withLock { $0 }
        )
        let request = source.request
        guard let stream = request.httpBodyStream, number > 1 else {
            return connect(number, with: request, lastEventID, settings)
        }
        struct Body: @unchecked Sendable { let stream: InputStream }
        let body = Body(stream: stream)
        // Replaying the body runs user code, which must not run on the network thread.
        BlockingWorkers.shared.perform { [self] in
            guard let fresh = try? (body.stream as? any ReplayableBodyStream)?.replay() else {
                state.withLock { $0.end.fatal = EventSourceError.bodyCannotBeSentAgain }
                return conclude(number, nil)
            }
            var request = source.request
            request.httpBodyStream = fresh
            connect(number, with: request, lastEventID, settings)
        }
    }

    private func connect(
        _ number: Int, with request: URLRequest, _ lastEventID: String, _ settings: EventSourceSettings
    ) {
        guard let source else { return }
        let connection = HTTPRequestOperation(request: request.askingForEvents(after: lastEventID))
        connection.adoptSettings(of: source, decoding: true)
        connection.allowSilence(for: settings.readTimeout)
        connection.responseSerializer = HTTPResponseSerializer.ofEvents
        // Limit the body of an error response.
        connection.maximumBodySize = 1 << 20
        let parser = EventStreamParser(
            lastEventID: lastEventID, maximumLineLength: settings.maximumLineLength,
            maximumEventLength: settings.maximumEventLength)
        connection.setBodySink(EventBody(of: self, number: number, parser: parser))
        let isOver = state.withLock { state in
            state.connection = connection
            return state.isStopping || state.isClosing
        }
        connection.whenDelivered { [weak self, weak connection] in
            guard let self, let connection else { return }
            self.conclude(number, connection)
        }
        if isOver { connection.cancel() }
        connection.start()
    }

    /// Returns whether the response contains events. Called on the network thread, possibly twice.
    func accepts(_ head: ResponseHead, of number: Int) -> Bool {
        guard head.statusCode == 200 else { return false }
        guard head.isOfEvents else {
            let connection = state.withLock { state -> HTTPRequestOperation? in
                guard state.number == number else { return nil }
                state.end.fatal = EventSourceError.unacceptableContentType(head["Content-Type"])
                return state.connection
            }
            connection?.cancel()
            return false
        }
        let (isOpen, work, connection) = state.withLock { state -> (Bool, AttemptContext?, HTTPRequestOperation?) in
            guard state.number == number, !state.isStopping, !state.isClosing, !state.end.wasOpen else {
                return (false, nil, nil)
            }
            state.end.wasOpen = true
            if state.phase != .held { states.change(to: .open) }
            return (true, state.work, state.connection)
        }
        guard isOpen, let source else { return true }
        work?.note(head, redirects: connection?.redirects ?? [])
        source.milestone.reach()
        delivery.add(.opened, of: source)
        return true
    }

    // MARK: Events

    /// Delivers parsed events. Called on the network thread.
    func didReceive(_ events: [ServerSentEvent], _ parser: EventStreamParser, of number: Int) {
        let source = state.withLock { state -> EventSource? in
            guard state.number == number, state.end.fatal == nil else { return nil }
            state.lastEventID = parser.lastEventID
            if let interval = parser.retryInterval { state.retryInterval = ReconnectDelay.bounded(interval) }
            if !events.isEmpty { state.end.hadEvents = true }
            return self.source
        }
        guard let source else { return }
        var position = 0
        for comment in parser.comments {
            deliver(events[position..<comment.position], of: source)
            delivery.add(.comment(comment.text), of: source)
            position = comment.position
        }
        deliver(events[position...], of: source)
    }

    private func deliver(_ events: ArraySlice<ServerSentEvent>, of source: EventSource) {
        guard !events.isEmpty else { return }
        delivery.add(.events(Array(events), cost: events.reduce(0) { $0 + $1.cost }), of: source)
    }

    /// Ends the connection after a parser error. Called on the network thread.
    func fail(_ error: EventSourceError, of number: Int) {
        let reconnects = settings.withLock { $0.reconnectsAfterExcess }
        let connection = state.withLock { state -> HTTPRequestOperation? in
            guard state.number == number else { return nil }
            if reconnects { state.end.excess = error } else { state.end.fatal = error }
            return state.connection
        }
        connection?.cancel()
    }

    /// The identifier that the next connection sends.
    var lastEventID: String {
        state.withLock { $0.lastEventID } ?? settings.withLock { $0.firstEventID }
            ?? source?.request.value(forHTTPHeaderField: "Last-Event-ID") ?? ""
    }

    /// Ends the connection or the wait, and reconnects immediately.
    func restart() {
        let (number, connection) = state.withLock { state -> (Int, HTTPRequestOperation?) in
            guard state.phase != .held else { return (state.number, nil) }
            if state.connection != nil { state.end.isRestart = true }
            return (state.number, state.connection)
        }
        if let connection { connection.cancel() } else { connectAgain(after: number) }
    }

    // MARK: The end of a connection

    func conclude(_ number: Int, _ connection: HTTPRequestOperation?) {
        let reconnectsAfterServerErrors = settings.withLock { $0.reconnectsAfterServerErrors }
        let mayRepeat = reconnects
        let (outcome, work) = state.withLock { state -> (ConnectionEnd.Outcome?, AttemptContext?) in
            if state.number == number, state.phase == .held { state.end.cameDuringPause = true }
            guard state.number == number, state.phase == .connected else { return (nil, nil) }
            state.connection = nil
            if state.isClosing {
                state.phase = .idle
                return (.close, state.work.take())
            }
            if state.isStopping {
                state.phase = .idle
                return (.stop, state.work.take())
            }
            if state.end.isRestart, state.end.fatal == nil { return (.restart, nil) }
            let outcome = state.end.outcome(
                of: connection, mayRepeat: mayRepeat, reconnectsAfterServerErrors: reconnectsAfterServerErrors)
            if case .reconnect = outcome {
                state.failures = state.end.hadEvents ? 0 : state.failures + 1
                state.phase = .waiting
                return (outcome, nil)
            }
            state.phase = .ending
            return (outcome, state.work)
        }
        switch outcome {
        case nil: break
        case .stop:
            states.change(to: .connecting)
            work?.didStop()
        case .restart:
            states.change(to: .connecting)
            connect()
        case .reconnect(let error, let delay): wait(after: number, error, delay)
        case .close: work?.finish(with: nil)
        case .succeed, .fail: end(outcome, of: connection)
        }
    }

    /// Ends the source once the handlers have received everything.
    private func end(_ outcome: ConnectionEnd.Outcome?, of connection: HTTPRequestOperation?) {
        states.change(to: .closed)
        delivery.whenDrained { [self] in
            let work = state.withLock { state in
                state.phase = .idle
                return state.work.take()
            }
            if let head = connection?.responseHead { work?.note(head, redirects: connection?.redirects ?? []) }
            if case .fail(let error) = outcome { work?.fail(finally: error) } else { work?.finish(with: nil) }
        }
    }

    // MARK: Reconnecting

    private func wait(after number: Int, _ error: (any Error)?, _ asked: TimeInterval?) {
        guard let source else { return }
        states.change(to: .connecting)
        let settings = settings.withLock { $0 }
        let failures = state.withLock { $0.failures }
        let delay = ReconnectDelay(interval: retryInterval, maximum: settings.maximumRetryInterval)
            .seconds(after: failures, random: .random(in: 0...1), retryAfter: asked)
        let target = error is URLError ? source.networkTarget : nil
        let isAway = target.map(settings.network.isAway) ?? false
        delivery.add(
            .interrupted(EventSourceInterruption(error: error, failureCount: failures, delay: isAway ? nil : delay)),
            of: source)
        let clock = source.retryClock
        if !isAway { schedule(after: delay, number, on: clock) }
        guard let target else { return }
        do {
            let wait = try settings.network.awaitReturn(target, !isAway) { [weak self] in
                // Reconnecting may take time, so it does not run on this thread.
                clock.schedule(at: clock.now) { [weak self] in self?.connectAgain(after: number) }
            }
            let isOver = state.withLock { state in
                guard state.isWaiting(number) else { return true }
                state.wait.network = wait
                return false
            }
            withExtendedLifetime(isOver ? wait : nil) {}
        } catch {
            // Poll if listening failed, for example for lack of descriptors.
            if isAway { schedule(after: max(delay, 5), number, on: clock) }
        }
    }

    private func schedule(after delay: TimeInterval, _ number: Int, on clock: any SchedulingClock) {
        let timer = clock.schedule(at: Nanoseconds.deadline(delay, after: clock.now)) { [weak self] in
            self?.connectAgain(after: number)
        }
        let isOver = state.withLock { state in
            guard state.isWaiting(number) else { return true }
            state.wait.timer = timer
            return false
        }
        if isOver { timer.cancel() }
    }

    private func connectAgain(after number: Int) {
        let wait = state.withLock { state -> Wait? in
            guard state.isWaiting(number) else { return nil }
            state.phase = .connected
            return state.takeWait()
        }
        guard let wait else { return }
        wait.end()
        connect()
    }

    /// The value of ``EventSource/reconnects``.
    var reconnects: Bool {
        if let reconnects = settings.withLock({ $0.reconnects }) { return reconnects }
        let method = source?.request.httpMethod ?? "GET"
        return RequestRules.isIdempotent(method) || method == HTTPMethod.subscribe.rawValue
    }

    /// The reconnection interval in seconds: the server's, or the user's if the server has sent none.
    var retryInterval: TimeInterval {
        state.withLock { $0.retryInterval } ?? ReconnectDelay.bounded(settings.withLock { $0.retryInterval })
    }

    // MARK: The end

    /// Ends the feed when the operation ends for any reason. Can be called on any thread.
    func operationWillEnd(_ source: EventSource) {
        states.change(to: .closed)
        let error = source.error
        source.milestone.end(because: error)
        delivery.finish(error.map { .failure($0) } ?? .success(()))
        let wait = state.withLock { $0.takeWait() }
        wait.end()
        dropConnection()
    }
}

extension EventFeed.State {
    /// Returns whether the source is still waiting after the connection with the given number.
    fileprivate func isWaiting(_ number: Int) -> Bool {
        self.number == number && phase == .waiting && !isStopping && !isClosing
    }

    mutating func takeWait() -> EventFeed.Wait {
        defer { wait = EventFeed.Wait() }
        return wait
    }

    /// Takes the attempt if the source is waiting to reconnect, because nothing else would end the attempt.
    mutating func takeWaitingWork() -> AttemptContext? {
        guard phase == .waiting else { return nil }
        phase = .idle
        return work.take()
    }
}

extension EventFeed {
    /// Ends the source with an error once the handlers have received everything. A paused source stays paused. Can be
    /// called on any thread.
    func fail(_ error: any Error) {
        let (connection, work, wait) = state.withLock { state -> (HTTPRequestOperation?, AttemptContext?, Wait) in
            state.end.fatal = error
            // While the source waits to reconnect, no connection can finish it.
            guard state.phase == .waiting else { return (state.connection, nil, Wait()) }
            state.phase = .idle
            return (nil, state.work.take(), state.takeWait())
        }
        wait.end()
        connection?.cancel()
        work?.fail(finally: error)
    }
}
