import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// All that an operation holds and that more than one thread touches: a value behind the operation's one lock.
///
/// It is asked for several things at a time, because each lock, and each reference that is counted on its way out,
/// is a good part of what a small request costs.
struct OperationCore {
    typealias ObjectBox = URLConnectionOperation.ObjectBox

    // MARK: Settings

    var request: TransferRequest
    var common: CommonSettings
    var outputStream: URLConnectionOperation.StreamBox?
    /// Why it cannot even begin: a request that could not be made.
    var presetFailure: (any Error)?

    // MARK: Handlers, which are let go of when they have run

    var completion: (@Sendable () -> Void)?
    var success: HTTPRequestOperation.Success?
    var failure: HTTPRequestOperation.Failure?
    var rareHandlers: RareHandlers?

    /// What is called at the end.
    struct FinalHandlers: Sendable {
        let completion: (@Sendable () -> Void)?
        let success: HTTPRequestOperation.Success?
        let failure: HTTPRequestOperation.Failure?
    }

    var finalHandlers: FinalHandlers { FinalHandlers(completion: completion, success: success, failure: failure) }

    var hasHandlers: Bool { success != nil || failure != nil || completion != nil }

    /// Whether handlers must be handed to their queue now: there are some, and the operation has finished. Answers true
    /// once until they are taken.
    mutating func beginHandover() -> Bool {
        guard isFinished, hasHandlers, !isHandoverPending else { return false }
        isHandoverPending = true
        return true
    }

    mutating func takeHandlers() -> FinalHandlers {
        isHandoverPending = false
        return FinalHandlers(completion: completion.take(), success: success.take(), failure: failure.take())
    }

    /// What few operations have.
    final class RareHandlers: @unchecked Sendable {
        // Guarded by the operation's lock.
        var download: URLConnectionOperation.ProgressHandler?
        var upload: URLConnectionOperation.ProgressHandler?
        var redirect: URLConnectionOperation.RedirectHandler?
        var retry: URLConnectionOperation.RetryHandler?
        var prepare: URLConnectionOperation.Preparation?

        var copy: RareHandlers {
            let copy = RareHandlers()
            (copy.download, copy.upload, copy.redirect) = (download, upload, redirect)
            (copy.retry, copy.prepare) = (retry, prepare)
            return copy
        }
    }

    var handlers: RareHandlers {
        mutating get {
            if let rareHandlers { return rareHandlers }
            let handlers = RareHandlers()
            rareHandlers = handlers
            return handlers
        }
    }

    // MARK: What came of the request; final before `isFinished` is true

    var head: ResponseHead?
    var data: Data?
    var object: ObjectBox?
    var error: (any Error)?
    /// Whether the body is left to be decoded by the task that awaits the operation.
    var isUndecoded = false

    // MARK: The work

    var workSlot = WorkSlot()
    var transfer: OperationTransfer?
    /// What carries all tries.
    var carrier: (any Transport)?
    var hasBegun = false
    var retry: RetryRecord?

    var retryRecord: RetryRecord {
        mutating get {
            if let retry { return retry }
            let record = RetryRecord()
            retry = record
            return record
        }
    }

    // MARK: The delivery

    /// The completion group, from the moment that it was entered.
    var enteredGroup: DispatchGroup?
    var isFinished = false
    /// Whether the handlers have been handed to their queue, which has not called them yet.
    var isHandoverPending = false
    /// Whether the handlers have run, or there are none.
    var areHandlersDone = false
    /// Whether the end has been posted: dependents and queues know of it.
    var isEndPosted = false
    var isDelivered: Bool { areHandlersDone && isEndPosted }
    /// The library's own: what else waits for the delivery to be over.
    var hooks: [@Sendable () -> Void] = []

    // MARK: Who looks on

    var observationCenter: ObservationCenter?
    var progressReport: ProgressReport?

    init(_ request: TransferRequest, _ common: CommonSettings) {
        self.request = request
        self.common = common
    }

    /// What carries all tries of the operation: settled with the first.
    mutating func openCarrier() -> any Transport {
        if let carrier { return carrier }
        // Not the values as a whole: each of them would be counted.
        let own = common.values.transport
        let chosen = common.values.coalesces && rareHandlers?.redirect == nil ? own.coalescing : own
        carrier = chosen
        return chosen
    }

    mutating func openTransfer(over carrier: any Transport) -> OperationTransfer {
        if let transfer { return transfer }
        let opened = OperationTransfer(
            url: outputStream == nil ? nil : request.url, output: outputStream?.stream, transport: carrier)
        transfer = opened
        return opened
    }

    /// How many bytes of a body may be kept in memory.
    func memoryLimit(whenParsed isParsed: Bool) -> Int {
        let limit = common.values.maximumBodySize
        return isParsed ? min(limit, common.values.serializer.parsingLimit ?? .max) : limit
    }

    /// The request with the limit that was set for the time without a byte, if there is one.
    var requestWithTimeout: TransferRequest {
        guard let limit = common.values.idleTimeout else { return request }
        return request.with(timeoutInterval: limit)
    }

    /// Enters the completion group, once.
    mutating func enterCompletionGroup() {
        guard enteredGroup == nil, !isFinished, let group = common.values.completionGroup else { return }
        group.enter()
        enteredGroup = group
    }
}

extension URLConnectionOperation {
    /// Changes settings, which may be those of other operations too until then. Returns what `body` returns.
    @discardableResult
    final func change<Result>(_ body: (inout CommonSettings.Values) -> sending Result) -> Result {
        let (result, old) = core.withLock { core -> (Result, CommonSettings?) in
            guard !isKnownUniquelyReferenced(&core.common) else { return (body(&core.common.values), nil) }
            let old = core.common
            core.common = CommonSettings(old.values)
            return (body(&core.common.values), old)
        }
        // It may be the last one to refer to a user's objects: not under the lock.
        withExtendedLifetime(old) {}
        return result
    }
}
