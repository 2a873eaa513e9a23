import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Operations for queues, with dependencies, batches and handlers. They are not enqueued.
///
/// If the server rejects the clock or the region, an operation fails, and the next one is signed correctly. The async
/// functions send a second request automatically.
extension ObjectStorage {
    /// Creates an operation that stores data. Its `responseObject` is a ``StoredObject``.
    ///
    /// - Parameters:
    ///   - data: The contents of the object.
    ///   - key: The key; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - contentType: The media type; `application/octet-stream` by default.
    ///   - metadata: Values in ASCII, by names that are tokens (RFC 9110, section 5.6.2), without
    ///     `x-amz-meta-`.
    ///   - condition: The condition; nil to store unconditionally.
    /// - Throws: ``ObjectStorageError/Code/invalidKey``, ``ObjectStorageError/Code/invalidMetadata``.
    public func makePutOperation(
        _ data: Data, key: String, contentType: String? = nil, metadata: [String: String] = [:],
        condition: StoreCondition? = nil
    ) throws(ObjectStorageError) -> HTTPRequestOperation {
        operation(try putCall(.data(data), key, contentType, metadata, condition))
    }

    /// Creates an operation that stores a file of at most 5 GiB in one request. The file is read when the operation
    /// runs, and must not change until then. Its `responseObject` is a ``StoredObject``.
    ///
    /// - Throws: The errors of ``makePutOperation(_:key:contentType:metadata:condition:)``;
    ///   ``ObjectStorageError/Code/unreadableSource``.
    public func makePutOperation(
        fileAt url: URL, key: String, contentType: String? = nil, metadata: [String: String] = [:],
        condition: StoreCondition? = nil
    ) throws(ObjectStorageError) -> HTTPRequestOperation {
        let file = try SourceFile(url)
        guard file.size <= Self.largestRequest else {
            throw ObjectStorageError(
                .sourceTooLarge, "The file is larger than 5 GiB, the maximum for one request.", key: key)
        }
        let type = contentType ?? MIMEType.type(forPathExtension: url.pathExtension)
        return operation(try putCall(.file(file, 0..<file.size), key, type, metadata, condition))
    }

    /// Creates an operation that fetches an object. Its `responseObject` is the `Data`, unless it has an
    /// `outputStream`.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidKey``.
    public func makeGetOperation(_ key: String) throws(ObjectStorageError) -> HTTPRequestOperation {
        operation(try getCall(key))
    }

    /// Creates an operation that deletes an object. It succeeds even if the object does not exist.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidKey``.
    public func makeDeleteOperation(_ key: String) throws(ObjectStorageError) -> HTTPRequestOperation {
        operation(try call("DELETE", key))
    }

    /// The maximum size of the body of one request: 5 GiB.
    static var largestRequest: Int64 { 5 << 30 }

    // MARK: Calls

    func call(_ method: String, _ key: String, answer: AnswerKind = .nothing) throws(ObjectStorageError) -> StorageCall {
        StorageCall(method: method, key: try whole(key), answer: answer, name: key)
    }

    func getCall(_ key: String) throws(ObjectStorageError) -> StorageCall {
        var call = try call("GET", key, answer: .data)
        call.fields = [("x-amz-checksum-mode", "ENABLED")]
        return call
    }

    func putCall(
        _ content: RequestPayload.Content, _ key: String, _ contentType: String?, _ metadata: [String: String],
        _ condition: StoreCondition?
    ) throws(ObjectStorageError) -> StorageCall {
        var call = try call("PUT", key, answer: .stored)
        call.payload = RequestPayload(content)
        call.checksum = configuration.checksum
        call.fields = try Self.fields(contentType, metadata, key)
        if let condition { call.fields.append(try condition.field(key)) }
        return call
    }

    static func fields(
        _ contentType: String?, _ metadata: [String: String], _ key: String
    ) throws(ObjectStorageError) -> [(name: String, value: String)] {
        let isText = { (text: String) in text.utf8.allSatisfy { 0x20..<0x7F ~= $0 } }
        let type = contentType ?? MIMEType.unknown
        guard !type.isEmpty, isText(type) else {
            throw ObjectStorageError(.invalidMetadata, "The content type contains invalid characters.", key: key)
        }
        var fields = [(name: "Content-Type", value: type)]
        for (name, value) in metadata {
            guard HTTPSyntax.isToken(name), isText(value) else {
                throw ObjectStorageError(
                    .invalidMetadata, "Invalid metadata: use tokens as names and ASCII values.", key: key)
            }
            fields.append(("x-amz-meta-\(name.lowercased())", value))
        }
        guard Set(fields.map(\.name)).count == fields.count else {
            throw ObjectStorageError(.invalidMetadata, "Two metadata names differ only in case.", key: key)
        }
        return fields
    }

    // MARK: Operations

    /// Creates an operation for a call, signed when it starts.
    func operation(_ call: StorageCall) -> HTTPRequestOperation {
        let address = place.endpoint.address(of: call.key, in: place.region)
        // If the URL is invalid, signing reports the reason.
        let url = try? place.url(address, query: call.query)
        var request = URLRequest(url: url ?? configuration.endpoint)
        request.httpMethod = call.method
        // Do not accept an encoding, which would become part of the object.
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        request.httpShouldHandleCookies = false
        switch call.payload.content {
        case .data(let data):
            if !data.isEmpty || call.method == "PUT" { request.httpBody = data }
        case .file:
            request.setValue(String(call.payload.length), forHTTPHeaderField: "Content-Length")
            request.httpBodyStream = call.payload.stream
        }
        let operation = manager.makeOperation(request: request)
        let serializer = StorageResponseSerializer(call, in: place)
        operation.updateSettings { settings in
            settings.responseSerializer = serializer
            settings.retryPolicy = configuration.retryPolicy
            if let limit = call.timeLimit { settings.totalTimeout = limit }
            settings.cookieStore = nil
            settings.cache = nil
            settings.authenticator = nil
            settings.credential = nil
            settings.shouldUseCredentialStorage = false
        }
        operation.setDelegate(RequestSigner(call, in: place))
        return operation
    }

    /// Runs a call. It is repeated once after a response that corrects the time or the region, and a few times after a
    /// failure for which S3 uses a different status than HTTP.
    func run(_ call: StorageCall) async throws -> Any? {
        var corrections = 0
        var repetitions = 0
        while true {
            let operation = operation(call)
            manager.enqueue(operation)
            do {
                try await operation.finished()
                return operation.responseObject
            } catch let error as ObjectStorageError where error.isCorrected && corrections < 2 {
                corrections += 1
            } catch let error as ObjectStorageError where error.isTemporaryBesidesStatus && repetitions < 3 {
                let delay = Duration.milliseconds(Int.random(in: 100...200) << repetitions)
                guard (try? await Task.sleep(for: delay)) != nil else {
                    throw URLError(
                        .cancelled, url: nil,
                        "The task was cancelled before the "
                            + "request was sent again.")
                }
                repetitions += 1
            } catch let error as ObjectStorageError
                where error.code == .preconditionFailed && operation.retryCount + repetitions > 0
            {
                // The response to an earlier attempt may have been lost.
                guard let object = await storedEarlier(call) else { throw error }
                return object
            } catch let error where call.answer != .data && error.isOfSize {
                throw ObjectStorageError(.malformedAnswer, "The response is too large.")
                    .about(bucket: place.endpoint.bucket, key: call.name)
            } catch {
                // If the file changed while it was sent, the transfer fails with a stream error.
                if !(error is ObjectStorageError) { try await check(call) }
                throw error
            }
        }
    }

    /// Returns the object if it has the contents of a request that stores one.
    private func storedEarlier(_ call: StorageCall) async -> StoredObject? {
        guard call.answer == .stored, let key = call.name, let object = try? await head(key),
            let digests = try? await BlockingWork.run({ try call.payload.digests() }), object.size == call.payload.length
        else { return nil }
        let isSame =
            if let tag = object.plainEntityTag, let md5 = digests.md5 { tag.lowercased() == md5.hexadecimalString } else {
                false
            }
        let hasChecksum = object.checksums.contains(ObjectChecksum(.sha256, value: digests.sha256))
        guard isSame || hasChecksum else { return nil }
        return object
    }

    private func check(_ call: StorageCall) async throws {
        guard case .file = call.payload.content, !Task.isCancelled else { return }
        do {
            try await BlockingWork.run { try call.payload.check() }
        } catch let error as ObjectStorageError {
            throw error.about(bucket: place.endpoint.bucket, key: call.name)
        }
    }
}

extension Error {
    /// Whether a response was too large.
    fileprivate var isOfSize: Bool {
        (self as? HTTPError)?.exceededLimit != nil || (self as? URLError)?.code == .dataLengthExceedsMaximum
    }
}

extension ObjectStorageError {
    /// Whether the error is a temporary failure that S3 reports with status 200 or 400.
    var isTemporaryBesidesStatus: Bool {
        switch statusCode {
        case 200: [.internalError, .slowDown, Code(rawValue: "ServiceUnavailable")].contains(code)
        case 400: code == .requestTimeout
        default: false
        }
    }
}
