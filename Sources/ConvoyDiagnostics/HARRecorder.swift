import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// A recorder of the requests of operations in the HTTP Archive format, HAR 1.2, which browser developer tools and
/// other viewers can read: the requests, the responses, and the duration of each phase.
///
/// ```swift
/// let recorder = HARRecorder()
/// manager.eventMonitors = [recorder.monitor]
/// …
/// try await recorder.write(to: file)
/// ```
///
/// Each operation is a page, and each of its requests an entry, including redirects, retries, the parts of a download,
/// and cached responses. Bodies are not included. Secrets are masked by default: those that `ConnectionTrace` masks,
/// and the values of cookies. Records are kept in memory, some kilobytes for each request, until ``removeAll()``.
public final class HARRecorder: Sendable {
    private let recording: Recording

    /// The monitor that records. Add it to the `eventMonitors` of managers and operations.
    public let monitor: EventMonitor

    /// Creates an empty recorder.
    ///
    /// - Parameter includesSecrets: Whether to record secrets. Pass true only if the file itself is kept secret.
    public init(includesSecrets: Bool = false) {
        let recording = Recording(includesSecrets: includesSecrets)
        self.recording = recording
        monitor = EventMonitor(capacity: .max) { events in recording.take(events) }
    }

    /// Returns the archive of all requests that have ended so far, as JSON in UTF-8.
    public func data() async throws -> Data { try await log().data() }

    /// Writes the archive to a file, replacing an existing one. The file mode is 0600 because the archive shows the
    /// program's requests.
    ///
    /// If the path is a link owned by this user, its target is replaced.
    ///
    /// - Throws: An error in `NSPOSIXErrorDomain`, or the encoder's error. The file is then unchanged.
    public func write(to file: URL) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            log { log in
                BlockingWorkers.shared.perform { done.resume(with: Result { try log.write(to: file) }) }
            }
        }
    }

    package func log() async -> HARLog {
        await withCheckedContinuation { done in log { done.resume(returning: $0) } }
    }

    /// - Parameter completion: The closure called with the log, on the monitor's queue.
    package func log(completion: @escaping @Sendable (HARLog) -> Void) {
        monitor.whenCaughtUp { [recording] in completion(recording.log()) }
    }

    /// Removes all records.
    public func removeAll() { recording.removeAll() }
}

/// The events of a recorder.
private final class Recording: Sendable {
    private struct RequestKey: Hashable {
        let operation: UInt64
        let request: Int
    }

    private struct Recorded {
        var pages: [UInt64: HARLog.Page] = [:]
        var entries: [HARLog.Entry] = []
        var open: [RequestKey: RequestHead] = [:]
        /// The indices of the latest entries of unfinished operations.
        var latest: [UInt64: Int] = [:]
    }

    private let recorded = Locked(Recorded())
    private let includesSecrets: Bool

    init(includesSecrets: Bool) { self.includesSecrets = includesSecrets }

    func take(_ events: [OperationEvent]) {
        recorded.withLock { recorded in
            for event in events { take(event, &recorded) }
        }
    }

    func log() -> HARLog {
        recorded.withLock { recorded in
            var log = HARLog()
            log.pages = recorded.pages.sorted { $0.key < $1.key }.map(\.value)
            log.entries = recorded.entries.enumerated().sorted {
                ($0.element.startedDate, $0.offset) < ($1.element.startedDate, $1.offset)
            }.map(\.element)
            return log
        }
    }

    func removeAll() { recorded.withLock { $0 = Recorded() } }

    private func take(_ event: OperationEvent, _ recorded: inout Recorded) {
        let number = event.operationNumber
        switch event.kind {
        case .requestStarted(let request, let head): recorded.open[RequestKey(operation: number, request: request)] = head
        case .requestEnded(let request, let response, let metrics):
            let head = recorded.open.removeValue(forKey: RequestKey(operation: number, request: request))
            guard let head, let metrics else { return }
            let maker = HARMaker(secrets: head.secrets, includesSecrets: includesSecrets)
            add(maker.entry(head, response, metrics, page: pageID(number)), of: event, &recorded)
        case .servedFromCache(let response, let metrics):
            let maker = HARMaker(secrets: event.secrets?.classifier ?? .standard, includesSecrets: includesSecrets)
            add(maker.entry(nil, response, metrics, page: pageID(number)), of: event, &recorded)
        case .finished(let outcome):
            recorded.pages[number]?.duration = event.time * 1000
            let latest = recorded.latest.removeValue(forKey: number)
            guard let latest, recorded.entries.indices.contains(latest), recorded.entries[latest].response.status == 0,
                recorded.entries[latest].response.error == nil
            else { return }
            switch outcome {
            case .succeeded: break
            case .failed(let error): recorded.entries[latest].response.error = ErrorText.shown(error)
            case .cancelled: recorded.entries[latest].response.error = "cancelled"
            }
        default: break
        }
    }

    private func pageID(_ number: UInt64) -> String { "operation_\(number)" }

    private func add(_ entry: HARLog.Entry, of event: OperationEvent, _ recorded: inout Recorded) {
        let number = event.operationNumber
        recorded.latest[number] = recorded.entries.count
        recorded.entries.append(entry)
        guard recorded.pages[number] == nil else { return }
        recorded.pages[number] = HARLog.Page(
            id: entry.page, title: "\(entry.request.method) \(entry.request.url)", startedDate: event.origin.date)
    }
}

/// A converter of requests to entries.
struct HARMaker {
    let secrets: SecretClassifier
    let includesSecrets: Bool

    /// - Parameter request: The request; nil for a cached response, for which no request was sent.
    func entry(
        _ request: RequestHead?, _ response: ResponseHead?, _ metrics: TransactionMetrics, page: String
    ) -> HARLog.Entry {
        HARLog.Entry(
            page: page, startedDate: metrics.startDate, request: self.request(request, metrics),
            response: self.response(response, metrics), timings: timings(metrics),
            serverAddress: metrics.remoteAddress.map { String($0.prefix { $0 != "%" }) },
            connection: metrics.localPort.map(String.init), cacheUse: metrics.cacheUse?.rawValue,
            comment: metrics.isShared
                ? "The request was sent by another operation, which shares its response with this one." : nil)
    }

    // MARK: The request

    private func request(_ head: RequestHead?, _ metrics: TransactionMetrics) -> HARRequest {
        let address = head.map { includesSecrets ? $0.address : Redaction.url($0.address, secrets) }
        let url = address ?? metrics.url?.absoluteString ?? ""
        let isSent = metrics.countOfRequestHeaderBytesSent > 0
        let fields = head?.fields ?? []
        return HARRequest(
            method: metrics.requestMethod, url: url, httpVersion: version(head, metrics), headers: fields.map(shown),
            queryString: items(of: url), cookies: fields.flatMap(cookiesSent),
            headersSize: isSent ? metrics.countOfRequestHeaderBytesSent : -1,
            bodySize: isSent ? metrics.countOfRequestBodyBytesSent : head == nil ? -1 : 0,
            bodyType: head.flatMap { $0.bodyLength == 0 ? nil : $0["Content-Type"] ?? "application/octet-stream" })
    }

    /// Returns the HTTP version of the request, derived from that of the response.
    private func version(_ head: RequestHead?, _ metrics: TransactionMetrics) -> String {
        switch metrics.networkProtocolName {
        case "h2": "HTTP/2"
        case "h3": "HTTP/3"
        case _?: "\(min(head?.maximumVersion ?? .http1_1, .http1_1))"
        case nil: ""
        }
    }

    /// Returns the items of a query (the URL Standard, section 5.1), in which secrets are already masked.
    private func items(of url: String) -> [HARField] {
        let beforeFragment = url.utf8.prefix { $0 != UInt8(ascii: "#") }
        guard let mark = beforeFragment.firstIndex(of: UInt8(ascii: "?")) else { return [] }
        let query = beforeFragment[beforeFragment.index(after: mark)...]
        return query.split(separator: UInt8(ascii: "&")).map { item in
            let name = item.prefix { $0 != UInt8(ascii: "=") }
            return HARField(name: decoded(name), value: decoded(item.dropFirst(name.count + 1)))
        }
    }

    private func decoded(_ bytes: some Sequence<UInt8>) -> String {
        let spaced = bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        return String(decoding: PercentEncoding.decoded(spaced[...]), as: UTF8.self)
    }

    private func shown(_ field: (name: String, value: String)) -> HARField {
        HARField(name: field.name, value: includesSecrets ? field.value : secrets.shown(field.name, field.value))
    }

    private func cookiesSent(_ field: (name: String, value: String)) -> [HARCookie] {
        guard ASCII.equalIgnoringCase(field.name.utf8, "cookie".utf8) else { return [] }
        return field.value.utf8.split(separator: UInt8(ascii: ";")).map { cookie($0) }
    }

    /// Returns the cookie of a `name=value` pair.
    private func cookie(_ pair: Substring.UTF8View) -> HARCookie {
        let name = pair.prefix { $0 != UInt8(ascii: "=") }
        let value = pair.dropFirst(name.count + 1)
        return HARCookie(
            name: text(name), value: includesSecrets || value.isEmpty ? text(value) : Redaction.mask)
    }

    private func text(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: ASCII.trimmed(Array(bytes)[...]), as: UTF8.self)
    }

    // MARK: The response

    private func response(_ head: ResponseHead?, _ metrics: TransactionMetrics) -> HARResponse {
        let isReceived = metrics.countOfResponseHeaderBytesReceived > 0
        let fields = head?.fields ?? []
        let status = metrics.statusCode ?? head?.statusCode ?? 0
        let location = (300..<400).contains(status) ? head?["Location"] : nil
        let bodySize = metrics.cacheUse != nil ? 0 : isReceived ? metrics.countOfResponseBodyBytesReceived : -1
        return HARResponse(
            status: status, statusText: status == 0 ? "" : StatusText.reasonPhrase(status),
            httpVersion: head?.httpVersion ?? "",
            headers: fields.map(shown), cookies: fields.flatMap(cookiesSet),
            redirectURL: location.map { includesSecrets ? $0 : Redaction.url($0, secrets) } ?? "",
            headersSize: isReceived ? metrics.countOfResponseHeaderBytesReceived : -1, bodySize: bodySize,
            contentSize: max(0, metrics.countOfResponseBodyBytesAfterDecoding), mimeType: head?["Content-Type"] ?? "",
            error: metrics.failureReason)
    }

    private func cookiesSet(_ field: (name: String, value: String)) -> [HARCookie] {
        guard ASCII.equalIgnoringCase(field.name.utf8, "set-cookie".utf8) else { return [] }
        let parts = field.value.utf8.split(separator: UInt8(ascii: ";"))
        guard let first = parts.first else { return [] }
        var cookie = cookie(first)
        for part in parts.dropFirst() {
            let name = part.prefix { $0 != UInt8(ascii: "=") }
            let value = text(part.dropFirst(name.count + 1))
            switch text(name).lowercased() {
            case "path": cookie.path = value
            case "domain": cookie.domain = value
            case "expires":
                cookie.expires = HTTPDate.parse(value).map { Date(timeIntervalSince1970: TimeInterval($0)) }
            case "httponly": cookie.isHTTPOnly = true
            case "secure": cookie.isSecure = true
            default: break
            }
        }
        return [cookie]
    }

    // MARK: Times

    private func timings(_ metrics: TransactionMetrics) -> HARTimings {
        func milliseconds(_ phase: TransactionPhase) -> Double { metrics.duration(of: phase) * 1000 }
        var timings = HARTimings()
        timings.receive = milliseconds(.receive)
        guard metrics.cacheUse == nil else { return timings }
        timings.blocked = milliseconds(.blocked)
        timings.send = milliseconds(.send)
        timings.wait = milliseconds(.wait)
        guard !metrics.isReusedConnection else { return timings }
        timings.dns = milliseconds(.nameLookup)
        guard metrics.nameFound != nil else { return timings }
        timings.connect = milliseconds(.connect) + milliseconds(.tunnel) + milliseconds(.tls)
        if metrics.secured != nil { timings.ssl = milliseconds(.tls) }
        return timings
    }
}
