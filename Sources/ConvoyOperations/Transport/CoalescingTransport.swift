import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A transport in which identical GETs that are in flight at the same time share one transfer.
///
/// Every operation gets a connection of its own; the transfer behind it is shared. One that joins late first receives
/// what the others have already received. One that cancels leaves; the transfer ends when the last one leaves.
///
/// Only bodies that go to memory are shared: a stream may be slow, and have to start over. An operation that suspends its
/// connection gets what comes meanwhile when it resumes, and delays no other.
///
/// Each network thread has its own coalescing transport, which retains the thread and is retained by the operations
/// that use it.
final class CoalescingTransport: Transport {
    /// What makes two requests the same.
    struct Key: Hashable {
        /// Whose they are.
        let identity: Identity
        let url: URL
        let headers: [String: ExactString]
        let timeout: TimeInterval
        let cachePolicy: UInt
        let configuration: ConnectionConfiguration
        /// Another cookie may bring another response.
        let cookieRevision: UInt64
        let handlesCookies: Bool
        /// On whose behalf it is made, which some cookies depend on.
        let site: URL?

        init(_ request: URLRequest, _ url: URL, _ configuration: ConnectionConfiguration) {
            identity = configuration.identity(of: request)
            self.url = url
            headers = (request.allHTTPHeaderFields ?? [:]).mapValues(ExactString.init)
            timeout = request.timeoutInterval
            cachePolicy = request.cachePolicy.rawValue
            self.configuration = configuration
            cookieRevision = configuration.cookies?.keeper.revision ?? 0
            handlesCookies = request.httpShouldHandleCookies
            site = request.mainDocumentURL
        }
    }

    private let base: any Transport
    private let flights = Locked<[Key: Flight]>([:])

    init(base: any Transport) { self.base = base }

    var isOfLibrary: Bool { base.isOfLibrary }

    /// How many transfers are in flight.
    var flightCount: Int { flights.withLock { $0.count } }

    func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        guard let url = request.url, (request.httpMethod ?? "GET") == "GET", request.httpBody == nil,
            request.httpBodyStream == nil
        else { return base.connection(for: request, configuration: configuration, delegate: delegate) }
        let key = Key(request, url, configuration)
        // A key that contains a NaN does not equal itself: its flight could be neither found nor removed.
        guard key == key else {
            return base.connection(for: request, configuration: configuration, delegate: delegate)
        }
        return Passenger(request: request, delegate: delegate, base: base) { [self] passenger in
            board(passenger, key: key, configuration: configuration)
        }
    }

    func perform(_ block: @escaping @Sendable () -> Void) { base.perform(block) }

    func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) { try base.performOrFail(block) }

    /// Joins a flight or begins one. On the network thread.
    private func board(_ passenger: Passenger, key: Key, configuration: ConnectionConfiguration) {
        if let flight = flights.withLock({ $0[key] }), flight.take(passenger) { return }
        let flight = Flight(collectsMetrics: configuration.collectsMetrics) { [weak self] flight in
            self?.flights.withLock { flights in
                if flights[key] === flight { flights[key] = nil }
            }
        }
        flights.withLock { $0[key] = flight }
        flight.begin(with: passenger, base: base, configuration: configuration)
    }
}

/// One operation's connection. Its calls are carried out on the network thread, in order.
private final class Passenger: Connection, @unchecked Sendable {
    // All mutable members belong to the network thread.
    let originalRequest: URLRequest
    private(set) var delegate: (any URLConnectionDelegate)?
    private let onStart: @Sendable (Passenger) -> Void
    private let base: any Transport
    weak var flight: Flight?
    private var isSuspended = false
    private let suspensionCount = Atomic<UInt32>(0)
    /// The bytes that have come while the connection was suspended.
    private var pending = Data()
    /// The end that has come behind them.
    private var pendingEnd: ((Passenger, any URLConnectionDelegate) -> Void)?
    private var isCancelled = false

    init(
        request: URLRequest, delegate: any URLConnectionDelegate, base: any Transport,
        onStart: @escaping @Sendable (Passenger) -> Void
    ) {
        originalRequest = request
        self.delegate = delegate
        self.onStart = onStart
        self.base = base
    }

    func start() {
        do throws(URLError) {
            try base.performOrFail { [self] in
                if isCancelled { end { $0.connectionDidCancel(self) } } else { onStart(self) }
            }
        } catch {
            // There is no network thread on which to report it.
            end { $0.connection(self, didFailWith: error) }
        }
    }

    func cancel() {
        base.perform { [self] in
            guard !isCancelled else { return }
            isCancelled = true
            if pendingEnd != nil { return end { $0.connectionDidCancel(self) } }
            guard let flight else { return }
            guard flight.leave(self) else { return }
            end { $0.connectionDidCancel(self) }
        }
    }

    func suspendReceiving() {
        suspensionCount.add(1, ordering: .releasing)
        isSuspended = true
    }

    func resumeReceiving() {
        let count = suspensionCount.load(ordering: .acquiring)
        base.perform { [self] in
            // A later suspension is not lifted.
            guard suspensionCount.load(ordering: .relaxed) == count else { return }
            isSuspended = false
            if !pending.isEmpty {
                let bytes = pending
                pending = Data()
                bytes.withUnsafeBytes { delegate?.connection(self, didReceive: $0) }
            }
            guard !isSuspended, let tell = pendingEnd.take() else { return }
            end { tell(self, $0) }
        }
    }

    func receive(_ bytes: UnsafeRawBufferPointer) {
        if isSuspended {
            pending.append(contentsOf: bytes)
        } else {
            delegate?.connection(self, didReceive: bytes)
        }
    }

    /// The shared transfer has ended. The end is told behind the last byte.
    func transferDidEnd(_ tell: @escaping (Passenger, any URLConnectionDelegate) -> Void) {
        flight = nil
        if pending.isEmpty { end { tell(self, $0) } } else { pendingEnd = tell }
    }

    func end(_ tell: (any URLConnectionDelegate) -> Void) {
        let told = delegate
        delegate = nil
        flight = nil
        pendingEnd = nil
        if let told { tell(told) }
    }
}

/// The transfer that several operations' connections share. Belongs to the network thread.
private final class Flight: URLConnectionDelegate, @unchecked Sendable {
    /// How much of the body is kept for late joiners. Beyond that, nobody can join.
    private static let memory = 4 << 20

    private var connection: (any Connection)?
    private var passengers: [Passenger] = []
    private var head: ResponseHead?
    /// What late joiners are told of the requests so far, in its order.
    private var story: [Chapter] = []
    private var heard: Data? = Data()
    private let collectsMetrics: Bool
    private let onEnd: (Flight) -> Void

    private enum Chapter {
        case request(RequestHead)
        case redirect(RedirectEvent)
        case metrics(TransactionMetrics)
    }

    init(collectsMetrics: Bool, onEnd: @escaping (Flight) -> Void) {
        self.collectsMetrics = collectsMetrics
        self.onEnd = onEnd
    }

    func begin(with passenger: Passenger, base: any Transport, configuration: ConnectionConfiguration) {
        passengers = [passenger]
        passenger.flight = self
        let connection = base.connection(
            for: passenger.originalRequest, configuration: configuration, delegate: self)
        self.connection = connection
        connection.start()
    }

    /// Adds a passenger, and passes it what it has missed. False if that is no longer possible.
    func take(_ passenger: Passenger) -> Bool {
        guard connection != nil, let heard else { return false }
        passengers.append(passenger)
        passenger.flight = self
        for chapter in story { tell(chapter, to: passenger) }
        if let head { passenger.delegate?.connection(passenger, didReceive: head) }
        if !heard.isEmpty { heard.withUnsafeBytes { passenger.receive($0) } }
        return true
    }

    /// Lets a passenger go. False if it has to wait for the end of the transfer, which is being cancelled: to hear what that
    /// took.
    func leave(_ passenger: Passenger) -> Bool {
        guard passengers.allSatisfy({ $0 === passenger }) else {
            passengers.removeAll { $0 === passenger }
            return true
        }
        // No passenger may join a transfer that is being cancelled.
        heard = nil
        onEnd(self)
        if !collectsMetrics { passengers = [] }
        connection?.cancel()
        return !collectsMetrics
    }

    // MARK: The transfer's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead) {
        head = response
        for passenger in passengers { passenger.delegate?.connection(passenger, didReceive: response) }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        if let count = heard?.count {
            if count + data.count <= Self.memory { heard?.append(contentsOf: data) } else { heard = nil }
        }
        for passenger in passengers { passenger.receive(data) }
    }

    func connection(_ connection: any Connection, willSend request: RequestHead) { tell(.request(request)) }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) { tell(.redirect(redirect)) }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics) { tell(.metrics(metrics)) }

    private func tell(_ chapter: Chapter) {
        story.append(chapter)
        for passenger in passengers { tell(chapter, to: passenger) }
    }

    private func tell(_ chapter: Chapter, to passenger: Passenger) {
        guard let delegate = passenger.delegate else { return }
        switch chapter {
        case .request(let request): delegate.connection(passenger, willSend: request)
        case .redirect(let redirect): delegate.connection(passenger, didHandle: redirect)
        case .metrics(var metrics):
            // One of all that share a request has made it.
            metrics.isShared = passenger !== passengers.first
            delegate.connection(passenger, didCollect: metrics)
        }
    }

    func connectionDidFinish(_ connection: any Connection) {
        end { passenger, delegate in delegate.connectionDidFinish(passenger) }
    }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        end { passenger, delegate in delegate.connection(passenger, didFailWith: error) }
    }

    func connectionDidCancel(_ connection: any Connection) {
        end { passenger, delegate in delegate.connectionDidCancel(passenger) }
    }

    private func end(_ tell: @escaping (Passenger, any URLConnectionDelegate) -> Void) {
        connection = nil
        onEnd(self)
        let aboard = passengers
        passengers = []
        for passenger in aboard { passenger.transferDidEnd(tell) }
    }
}
