import ConvoyDownloads
import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A sender for the requests of an item. Each request is an operation of the run's manager.
struct RequestSender {
    let plan: RequestPlan
    /// The expectations with all accepted statuses.
    let expectations: ExpectationPlan
    let run: WorkflowRun

    /// Sends a request and waits until it has ended.
    ///
    /// - Throws: `ItemRun.Failure` if there is no response to examine.
    func send(
        _ built: BuiltRequest, to file: URL?, _ scope: ItemScope, _ outcome: inout RequestOutcome
    ) async throws -> ReceivedResponse {
        let request = built.request
        // A download accepts only success statuses, and has no body.
        let isDownload =
            file != nil && request.httpMethod == "GET" && request.httpBody == nil && request.httpBodyStream == nil
            && (expectations.statuses ?? []).allSatisfy { 200...299 ~= $0.lowerBound && 200...299 ~= $0.upperBound }
        let operation: HTTPRequestOperation
        let isTooLong = Locked(false)
        if isDownload, let file {
            let download = DownloadOperation(request: request, destination: file)
            download.existingFilePolicy = run.outputs.replaces ? .replace : .fail
            download.checksums = try checksums(scope)
            operation = download
        } else {
            operation = HTTPRequestOperation(request: request)
        }
        try setUp(operation, built, scope)
        var serializer = HTTPResponseSerializer()
        if plan.poll != nil {
            serializer.acceptableStatusCodes = nil
        } else {
            serializer.acceptableStatusCodes =
                isDownload && expectations.checksStatus ? .successful : acceptableStatuses
        }
        // A response of the wrong type must not become a file.
        if isDownload, let type = expectations.type { serializer.acceptableContentTypes = [type] }
        operation.responseSerializer = serializer
        if isDownload, let limit = expectations.maximumBytes {
            operation.downloadProgressHandler = { [weak operation] _, received, total in
                guard max(received, total ?? 0) > limit else { return }
                isTooLong.withLock { $0 = true }
                operation?.cancel()
            }
        }
        let clock = ContinuousClock.now
        try await finish(operation)
        let seconds = (ContinuousClock.now - clock).inSeconds
        note(operation, in: &outcome)
        if isTooLong.withLock({ $0 }) {
            throw ItemRun.Failure(
                .expectation, "size: expected at most \(expectations.maximumBytes ?? 0) bytes, got more")
        }
        if let error = operation.error { try check(error, of: operation) }
        let hasFile = operation.error == nil && isDownload
        let length =
            hasFile
            ? file.flatMap { Journal.StoredFile(path: $0.path)?.length } ?? 0
            : Int64(operation.responseData?.count ?? 0)
        outcome.bytes += length
        return ReceivedResponse(
            status: operation.statusCode, fields: operation.responseHead?.fields ?? [],
            url: operation.responseHead?.url ?? operation.request.url,
            body: hasFile ? nil : operation.responseData ?? Data(),
            file: hasFile ? file : nil, byteCount: length, seconds: seconds, cookies: operation.cookieStore,
            label: charset(of: operation), version: operation.responseHead?.httpVersion ?? "HTTP/1.1",
            redirects: operation.redirects, address: operation.metrics?.transactions.last?.remoteAddress)
    }

    /// Waits for a matching server-sent event.
    func waitForEvent(
        _ built: BuiltRequest, _ scope: ItemScope, _ outcome: inout RequestOutcome
    ) async throws -> ReceivedResponse {
        guard let plan = plan.events else { throw EvaluationError(message: "no events") }
        let request = built.request
        let source = EventSource(request: request)
        try setUp(source, built, scope)
        source.completionQueue = DispatchQueue(label: "convoy.workflow.events")
        source.totalTimeout = plan.limit
        let found = Locked<ServerSentEvent?>(nil)
        source.eventHandler = { source, event in
            guard found.withLock({ $0 }) == nil, Self.fits(event, plan, scope) else { return }
            found.withLock { $0 = event }
            source.close()
        }
        let clock = ContinuousClock.now
        try await finish(source)
        note(source, in: &outcome)
        guard let event = found.withLock({ $0 }) else {
            if let error = source.error as? URLError, error.code == .timedOut {
                throw ItemRun.Failure(.time, String(format: "events: no matching event arrived within %g s", plan.limit))
            }
            if let error = source.error { try check(error, of: source) }
            throw ItemRun.Failure(.time, "events: the server closed the stream before a matching event arrived")
        }
        let data = Data(event.data.utf8)
        return ReceivedResponse(
            status: source.statusCode ?? 200, fields: source.responseHead?.fields ?? [], url: request.url, body: data,
            file: nil,
            byteCount: Int64(data.count), seconds: (ContinuousClock.now - clock).inSeconds)
    }

    private static func fits(_ event: ServerSentEvent, _ plan: EventPlan, _ scope: ItemScope) -> Bool {
        if let type = plan.type, event.type != type { return false }
        if let pattern = plan.pattern, (try? Pattern.matches(pattern, event.data)) != true { return false }
        guard !plan.json.isEmpty else { return true }
        let data = Data(event.data.utf8)
        let response = ReceivedResponse(
            status: 200, fields: [], url: nil, body: data, file: nil, byteCount: Int64(data.count), seconds: 0)
        var expectations = ExpectationPlan()
        expectations.json = plan.json
        return ExpectationCheck.failures(expectations, ResponseScope(examined: response, outer: scope)).isEmpty
    }

    // MARK: Settings

    private func setUp(
        _ operation: HTTPRequestOperation, _ built: BuiltRequest, _ scope: ItemScope
    ) throws(EvaluationError) {
        operation.settings = run.manager.settings
        // Only the metrics have the address of the server.
        operation.collectsMetrics =
            run.options.collectsMetrics || expectations.uses(.ip)
            || plan.poll?.until.responseNames.contains(ResponseName.ip.rawValue) == true
        operation.dependencyFailurePolicy = .run
        if let policy = run.options.retryPolicy { operation.retryPolicy = policy }
        run.options.configure?(operation, run.nextNumber())
        run.stores.apply(to: operation)
        try plan.connection.apply(to: operation, sending: built.file, in: scope, run.secrets)
        built.urlLogin?.apply(to: operation)
        if !built.receivesSecrets {
            operation.credential = nil
            operation.setDelegate(nil)
        }
        if let retry = plan.retry {
            var policy = RetryPolicy(maximumRetryCount: retry.count)
            policy.statusCodes.formUnion(retry.statuses)
            policy.maximumDuration = retry.maximumTime
            operation.retryPolicy = retry.count > 0 ? policy : nil
        }
    }

    private var acceptableStatuses: StatusCodeSet {
        expectations.acceptedStatuses.reduce(StatusCodeSet([])) { $0.union(StatusCodeSet($1)) }
    }

    private func checksums(_ scope: ItemScope) throws(EvaluationError) -> [Checksum] {
        var checksums: [Checksum] = []
        for (algorithm, template) in expectations.checksums {
            let text = try template.text(in: scope)
            do throws(ChecksumError) {
                checksums.append(try Checksum(parsing: "\(algorithm)=\(text)"))
            } catch {
                throw EvaluationError(message: "\(algorithm): \(error)")
            }
        }
        return checksums
    }

    // MARK: The end

    /// Returns the charset that the response specifies, or nil.
    private func charset(of operation: HTTPRequestOperation) -> String? {
        // Creating Foundation's response takes a tenth of the time for a request.
        guard operation.responseHead?["Content-Type"]?.lowercased().contains("charset") == true else { return nil }
        return operation.response?.textEncodingName
    }

    /// Enqueues an operation when the limits of the request allow it, and waits until it has finished.
    private func finish(_ operation: HTTPRequestOperation) async throws {
        let host = operation.request.url.flatMap { Target($0) }?.host ?? ""
        try await plan.limits?.begin(host)
        run.manager.enqueue(operation)
        try? await operation.finished()
        plan.limits?.end(host)
    }

    private func note(_ operation: HTTPRequestOperation, in outcome: inout RequestOutcome) {
        outcome.requestCount += 1
        outcome.retryCount += operation.retryCount
        outcome.method = operation.request.httpMethod ?? "GET"
        outcome.url = operation.request.url?.absoluteString
        outcome.status = operation.statusCode ?? outcome.status
        if run.options.collectsMetrics, let metrics = operation.metrics { outcome.metrics.append(metrics) }
    }

    /// Throws errors that leave no response to examine. A response with an unexpected status or type is examined.
    private func check(_ error: any Error, of operation: HTTPRequestOperation) throws {
        if run.isCancelled || Task.isCancelled { throw ItemRun.Failure(.cancelled, "cancelled") }
        if operation.statusCode != nil, (error as NSError).domain == URLResponseSerializationErrorDomain { return }
        switch error {
        case let error as DownloadError:
            switch error.reason {
            case .checksumMismatch(let expected, let actual):
                throw ItemRun.Failure(
                    .checksum, "\(expected.algorithm): expected \(expected.hexadecimal), got \(actual.hexadecimal)")
            case .fileExists(let file):
                throw ItemRun.Failure(.exchange(error), "file exists: \(file.relativePath)")
            default: throw ItemRun.Failure(.exchange(error), FailureText.line(for: error))
            }
        default: throw ItemRun.Failure(.exchange(error), FailureText.line(for: error))
        }
    }
}
