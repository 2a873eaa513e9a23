import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The properties that make two GETs identical, so that they may share one transfer.
package struct SharedTransferKey: Hashable, Sendable {
    /// The identity of the sender.
    package let identity: Identity
    package let url: URL
    package let headers: [String: ExactString]
    private let timeout: TimeInterval
    private let cachePolicy: UInt
    private let configuration: ConnectionConfiguration
    /// The revision of the cookie store, because different cookies may change the response.
    private let cookieRevision: UInt64
    private let handlesCookies: Bool
    /// The site on whose behalf the request is made, which determines its `SameSite` cookies.
    private let site: URL?

    /// Creates a key; nil for a request that cannot share its transfer.
    init?(_ request: URLRequest, _ configuration: ConnectionConfiguration) {
        guard let url = request.url, (request.httpMethod ?? "GET") == "GET", request.httpBody == nil,
            request.httpBodyStream == nil
        else { return nil }
        identity = configuration.identity(of: request)
        self.url = url
        headers = (request.allHTTPHeaderFields ?? [:]).mapValues(ExactString.init)
        timeout = request.timeoutInterval
        cachePolicy = request.cachePolicy.rawValue
        self.configuration = configuration
        cookieRevision = configuration.cookies?.keeper.revision ?? 0
        handlesCookies = request.httpShouldHandleCookies
        site = request.mainDocumentURL
        // A key that contains a NaN does not equal itself: its transfer could be neither found nor removed.
        guard self == self else { return nil }
    }
}

/// A transport in which identical concurrent GETs share one transfer.
///
/// Every operation gets its own connection, but the transfer behind it is shared. An operation that joins late first
/// receives the bytes that the others have already received. A cancelled operation leaves the transfer, which ends when
/// the last operation has left.
///
/// Only bodies kept in memory are shared: a stream may be slow, and may have to start over. An operation that suspends
/// its connection receives the bytes that arrived in the meantime when it resumes, without delaying others.
///
/// Each transport has at most one coalescing transport, which retains it and is retained by the connections made with
/// it.
final class CoalescingTransport: Transport {
    private let base: any Transport
    private let transfers = Locked<[SharedTransferKey: SharedTransfer]>([:])

    private struct WeakReference {
        weak var transport: CoalescingTransport?
    }

    /// The existing coalescing transports. There are few: one for each network thread in use.
    private static let existing = Locked<[WeakReference]>([])

    private init(base: any Transport) { self.base = base }

    /// Returns the coalescing transport of another transport.
    static func over(_ base: any Transport) -> CoalescingTransport {
        // Those that are found may be released here for the last time, which must happen without the lock.
        var found: [CoalescingTransport] = []
        defer { withExtendedLifetime(found) {} }
        return existing.withLock { existing in
            found = existing.compactMap(\.transport)
            if let known = found.first(where: { $0.base === base }) { return known }
            let new = CoalescingTransport(base: base)
            found.append(new)
            existing = found.map { WeakReference(transport: $0) }
            return new
        }
    }

    /// The number of running transfers.
    var transferCount: Int { transfers.withLock { $0.count } }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        guard let key = SharedTransferKey(request.urlRequest, configuration) else {
            return base.connection(for: request, configuration: configuration, delegate: delegate)
        }
        return Subscriber(request: request, delegate: delegate, base: base) { [self] subscriber in
            join(subscriber, key: key, configuration: configuration)
        }
    }

    func perform(_ block: @escaping @Sendable () -> Void) { base.perform(block) }

    /// Joins a transfer or begins one. Called on the network thread.
    private func join(_ subscriber: Subscriber, key: SharedTransferKey, configuration: ConnectionConfiguration) {
        if let transfer = transfers.withLock({ $0[key] }), transfer.add(subscriber) { return }
        let transfer = SharedTransfer(collectsMetrics: configuration.collectsMetrics) { [weak self] transfer in
            self?.transfers.withLock { transfers in
                if transfers[key] === transfer { transfers[key] = nil }
            }
        }
        transfers.withLock { $0[key] = transfer }
        transfer.begin(with: subscriber, base: base, configuration: configuration)
    }
}

/// One operation's connection. Its calls are performed on the network thread, in order.
private final class Subscriber: Connection, @unchecked Sendable {
    // All mutable members belong to the network thread.
    fileprivate let request: TransferRequest
    private(set) var delegate: (any ConnectionDelegate)?
    private let onStart: @Sendable (Subscriber) -> Void
    private let base: any Transport
    weak var transfer: SharedTransfer?
    private var isSuspended = false
    private let suspensionCount = Atomic<UInt32>(0)
    /// The bytes that arrived while the connection was suspended.
    private var pending = Data()
    /// The report of the end, to be delivered after the pending bytes.
    private var pendingEnd: SharedTransfer.DelegateCall?
    private var isCancelled = false

    init(
        request: TransferRequest, delegate: any ConnectionDelegate, base: any Transport,
        onStart: @escaping @Sendable (Subscriber) -> Void
    ) {
        self.request = request
        self.delegate = delegate
        self.base = base
        self.onStart = onStart
    }

    var originalRequest: URLRequest { request.urlRequest }

    func start() {
        do throws(URLError) {
            try base.performOrFail { [self] in
                if isCancelled { end { $0.connectionDidCancel(self) } } else { onStart(self) }
            }
        } catch {
            // The network thread does not run, so the error is reported on the calling thread.
            end { $0.connection(self, didFailWith: error) }
        }
    }

    func cancel() {
        base.perform { [self] in
            guard !isCancelled else { return }
            isCancelled = true
            if pendingEnd != nil { return end { $0.connectionDidCancel(self) } }
            guard let transfer, transfer.remove(self) else { return }
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
            // A later suspension stays in effect.
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

    func limitBodyOfError() { transfer?.noteLimit() }

    func receive(_ bytes: UnsafeRawBufferPointer) {
        if isSuspended {
            pending.append(contentsOf: bytes)
        } else {
            delegate?.connection(self, didReceive: bytes)
        }
    }

    /// Passes a report to the delegate.
    func take(_ report: SharedTransfer.DelegateCall) { if let delegate { report(self, delegate) } }

    /// Records that the shared transfer has ended. The end is reported after the last byte.
    func transferDidEnd(_ tell: @escaping SharedTransfer.DelegateCall) {
        transfer = nil
        if pending.isEmpty { end { tell(self, $0) } } else { pendingEnd = tell }
    }

    func end(_ tell: (any ConnectionDelegate) -> Void) {
        let told = delegate
        delegate = nil
        transfer = nil
        pendingEnd = nil
        if let told { tell(told) }
    }
}

/// The transfer shared by several operations' connections. It belongs to the network thread.
private final class SharedTransfer: ConnectionDelegate, @unchecked Sendable {
    /// The maximum number of body bytes kept for late subscribers. Beyond that limit, no subscriber can join.
    private static let memory = 4 << 20

    typealias DelegateCall = (Subscriber, any ConnectionDelegate) -> Void

    private var connection: (any Connection)?
    private var subscribers: [Subscriber] = []
    /// The reports for late subscribers, in order, to be replayed before the received bytes.
    private var reports: [DelegateCall] = []
    private var received: Data? = Data()
    /// The number of subscribers that treat the response as an error, whose body does not have to be complete.
    private var limits = 0
    private let collectsMetrics: Bool
    private let onEnd: (SharedTransfer) -> Void

    init(collectsMetrics: Bool, onEnd: @escaping (SharedTransfer) -> Void) {
        self.collectsMetrics = collectsMetrics
        self.onEnd = onEnd
    }

    func begin(with subscriber: Subscriber, base: any Transport, configuration: ConnectionConfiguration) {
        subscribers = [subscriber]
        subscriber.transfer = self
        let connection = base.connection(
            for: subscriber.request, configuration: configuration, delegate: self)
        self.connection = connection
        connection.start()
    }

    /// Adds a subscriber, and passes it the reports and bytes that it has missed. Returns false if that is no longer
    /// possible.
    func add(_ subscriber: Subscriber) -> Bool {
        guard connection != nil, let received else { return false }
        subscribers.append(subscriber)
        subscriber.transfer = self
        for report in reports { subscriber.take(report) }
        if !received.isEmpty { received.withUnsafeBytes { subscriber.receive($0) } }
        return true
    }

    /// Removes a subscriber. Returns false if it must wait, for its metrics, until the transfer that is being cancelled
    /// has ended.
    func remove(_ subscriber: Subscriber) -> Bool {
        guard subscribers.allSatisfy({ $0 === subscriber }) else {
            subscribers.removeAll { $0 === subscriber }
            return true
        }
        // No subscriber may join a transfer that is being cancelled.
        received = nil
        onEnd(self)
        if !collectsMetrics { subscribers = [] }
        connection?.cancel()
        return !collectsMetrics
    }

    // MARK: The transfer's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {
        let count = subscribers.count
        limits = 0
        tell { $1.connection($0, didReceive: response, after: nil) }
        guard limits == count else { return }
        // A late subscriber might need the complete body.
        received = nil
        connection.limitBodyOfError()
    }

    /// Records that another subscriber treats the response as an error.
    func noteLimit() { limits += 1 }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        if let count = received?.count {
            if count + data.count <= Self.memory { received?.append(contentsOf: data) } else { received = nil }
        }
        for subscriber in subscribers { subscriber.receive(data) }
    }

    func connection(_ connection: any Connection, willSend request: RequestHead) {
        tell { $1.connection($0, willSend: request) }
    }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {
        tell { $1.connection($0, didHandle: redirect) }
    }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics, of head: ResponseHead?) {
        tell { [unowned self] subscriber, delegate in
            var metrics = metrics
            // Only the first subscriber's metrics count the request as its own.
            metrics.isShared = subscriber !== subscribers.first
            delegate.connection(subscriber, didCollect: metrics, of: nil)
        }
    }

    private func tell(_ report: @escaping DelegateCall) {
        reports.append(report)
        for subscriber in subscribers { subscriber.take(report) }
    }

    func connectionDidFinish(_ connection: any Connection) { end { $1.connectionDidFinish($0) } }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        end { $1.connection($0, didFailWith: error) }
    }

    func connectionDidCancel(_ connection: any Connection) { end { $1.connectionDidCancel($0) } }

    private func end(_ report: @escaping DelegateCall) {
        connection = nil
        onEnd(self)
        let last = subscribers
        subscribers = []
        for subscriber in last { subscriber.transferDidEnd(report) }
    }
}
