import ConvoySupport
import Foundation

/// Methods that copy a manager.
extension HTTPRequestOperationManager {
    /// Creates a manager with the settings of another manager, and with its own queue, which has the same limits.
    ///
    /// ```swift
    /// let uploads = HTTPRequestOperationManager(copying: api)
    /// uploads.retryPolicy = nil  // api keeps its policy
    /// ```
    ///
    /// Each manager then has its own settings: the serializers, the decoder and the encoder, timeouts, the retry
    /// policy, and the configuration. Both managers share some objects: the completion queue and group, the network
    /// threads and their connections, the rate limits, and a decoder or encoder of your own class. The operations are
    /// not copied.
    ///
    /// A subclass that inherits the convenience initializers also inherits this one.
    public convenience init(copying manager: HTTPRequestOperationManager) {
        self.init(baseURL: manager.baseURL)
        takeSettings(of: manager)
    }

    /// Takes over the settings of another manager, and creates a queue with the limits of that manager's queue.
    package final func takeSettings(of manager: HTTPRequestOperationManager) {
        var copy = manager.state.withLock { $0 }
        copy.settings.values.decoder = copy.settings.values.decoder?.makeCopy()
        copy.encoder = copy.encoder.makeCopy()
        copy.operationQueue = Self.emptyQueue(like: copy.operationQueue)
        copy.transport = nil
        let taken = copy
        change { $0 = taken }
    }

    /// Returns a copy with the same settings, and with its own queue, which has the same limits; see
    /// ``init(copying:)``.
    ///
    /// The copy is an `HTTPRequestOperationManager`, even if this manager is an instance of a subclass. To copy a
    /// subclass, write `MyManager(copying: manager)`.
    public final func makeCopy() -> HTTPRequestOperationManager { HTTPRequestOperationManager(copying: self) }

    private static func emptyQueue(like queue: OperationQueue) -> OperationQueue {
        let copy: OperationQueue
        if let queue = queue as? RequestOperationQueue {
            let limited = RequestOperationQueue()
            limited.maxConcurrentOperationCountPerHost = queue.maxConcurrentOperationCountPerHost
            limited.maximumStartRate = queue.maximumStartRate
            limited.maximumStartRatePerHost = queue.maximumStartRatePerHost
            limited.maximumLength = queue.maximumLength
            limited.overflowPolicy = queue.overflowPolicy
            limited.priorityAgingInterval = queue.priorityAgingInterval
            copy = limited
        } else {
            copy = OperationQueue()
        }
        copy.name = queue.name
        copy.maxConcurrentOperationCount = queue.maxConcurrentOperationCount
        copy.qualityOfService = queue.qualityOfService
        return copy
    }
}

extension HTTPRequestOperationManager: CustomStringConvertible {
    /// A description with the class, the address, the base URL without a password, and the number of operations in the
    /// queue.
    public final var description: String {
        let base = baseURL.map { Redaction.url($0.absoluteString, connectionConfiguration.secrets) } ?? "none"
        return "<\(type(of: self)): \(Unmanaged.passUnretained(self).toOpaque()), baseURL: \(base), "
            + "operationQueue: \(operationQueue.name ?? "unnamed"), \(queuedOperationCount) operations>"
    }
}

extension JSONDecoder {
    /// Returns a decoder with the same settings. An instance of a subclass returns itself, because its properties are
    /// unknown.
    fileprivate func makeCopy() -> JSONDecoder {
        guard type(of: self) == JSONDecoder.self else { return self }
        let copy = JSONDecoder()
        copy.dateDecodingStrategy = dateDecodingStrategy
        copy.dataDecodingStrategy = dataDecodingStrategy
        copy.nonConformingFloatDecodingStrategy = nonConformingFloatDecodingStrategy
        copy.keyDecodingStrategy = keyDecodingStrategy
        copy.allowsJSON5 = allowsJSON5
        copy.assumesTopLevelDictionary = assumesTopLevelDictionary
        copy.userInfo = userInfo
        return copy
    }
}

extension JSONEncoder {
    /// Returns an encoder with the same settings. An instance of a subclass returns itself, because its properties are
    /// unknown.
    fileprivate func makeCopy() -> JSONEncoder {
        guard type(of: self) == JSONEncoder.self else { return self }
        let copy = JSONEncoder()
        copy.outputFormatting = outputFormatting
        copy.dateEncodingStrategy = dateEncodingStrategy
        copy.dataEncodingStrategy = dataEncodingStrategy
        copy.nonConformingFloatEncodingStrategy = nonConformingFloatEncodingStrategy
        copy.keyEncodingStrategy = keyEncodingStrategy
        copy.userInfo = userInfo
        return copy
    }
}

extension HTTPRequestOperationManager: OpaqueReflectable {}
