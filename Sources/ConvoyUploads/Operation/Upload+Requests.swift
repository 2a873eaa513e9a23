import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The response to a request of an upload.
struct UploadAnswer: @unchecked Sendable {
    let head: ResponseHead
    let data: Data?
    let redirects: [RedirectEvent]
    /// The number of bytes of the body that were sent.
    let sent: Int64

    var status: Int { head.statusCode }
    var isSuccess: Bool { (200..<300).contains(status) }

    /// Returns the number in a field; nil if the field is missing.
    ///
    /// - Throws: ``UploadError/Reason/invalidAnswer(_:)`` if the value is not a number, or if the field has several
    ///   different values.
    func number(_ name: String) throws(UploadError) -> Int64? {
        let values = head.values(of: name)
        guard let first = values.first else { return nil }
        guard values.allSatisfy({ $0.utf8.elementsEqual(first.utf8) }), !first.isEmpty, first.utf8.allSatisfy(ASCII.isDigit),
            let number = Int64(first)
        else { throw UploadError(.invalidAnswer("\(name) is \"\(values.joined(separator: ", ").prefix(60))\".")) }
        return number
    }

    /// Returns a structured boolean (RFC 9651, section 3.3.6); nil if the field is missing or invalid.
    func flag(_ name: String) -> Bool? {
        switch head[name].map({ HTTPSyntax.trimmed($0[...]) }) {
        case "?1": true
        case "?0": false
        default: nil
        }
    }

    /// Whether the response contains a field of the draft.
    var isOfDraft: Bool {
        head.hasField(
            "upload-complete", "upload-incomplete", "upload-offset", "upload-limit", "upload-draft-interop-version")
    }

    /// Returns the URL of the upload in the response, if any.
    ///
    /// - Throws: ``UploadError/Reason/invalidAnswer(_:)`` if the URL is invalid.
    func location() throws(UploadError) -> URL? { try Self.location(head) }

    static func location(_ head: ResponseHead) throws(UploadError) -> URL? {
        let values = head.bytes(of: "Location")
        guard let first = values.first else { return nil }
        // Parsers disagree about control characters; user information would let the server choose the client's
        // credentials.
        guard values.allSatisfy({ $0 == first }), !first.isEmpty, !first.contains(where: { $0 < 0x20 || $0 == 0x7F }),
            let url = URLReference.url(first, relativeTo: head.url), let address = HTTPAddress(url.absoluteString),
            !address.hasUserInfo
        else { throw UploadError(.invalidAnswer("The URL of the upload is invalid.")) }
        if !address.target.isSecure, Target(head.url)?.isSecure == true {
            throw UploadError(.invalidAnswer("The URL of the upload uses http, but the server uses https."))
        }
        return url
    }
}

/// The body of a request of an upload.
enum UploadRequestBody: Sendable {
    case none
    case data(Data)
    case range(any SeekableSource, Range<Int64>)
    /// A sequence, sent from its first byte.
    case stream(length: Int64?, canRepeat: Bool, make: @Sendable () -> SequencePump)

    var length: Int64? {
        switch self {
        case .none: 0
        case .data(let data): Int64(data.count)
        case .range(_, let range): range.upperBound - range.lowerBound
        case .stream(let length, _, _): length
        }
    }
}

extension Upload {
    /// Creates a request for a URL, with the user's header fields except those of a body.
    func uploadRequest(_ method: String, _ url: URL) -> URLRequest {
        var request = self.request
        request.url = url
        request.httpMethod = method
        for name in ["Content-Type", "Content-Length", "Content-Encoding", "Digest", "Repr-Digest", "Content-Digest"] {
            request.setValue(nil, forHTTPHeaderField: name)
        }
        return request
    }

    /// Sends a request, and returns its response, regardless of the status.
    ///
    /// - Parameter interim: A closure called on the network thread with interim responses; it must not block.
    /// - Throws: ``UploadFailure`` if the transfer fails; `CancellationError`; ``UploadError`` of the source.
    func send(
        _ request: URLRequest, _ body: UploadRequestBody = .none,
        interim: (@Sendable (ResponseHead) -> Void)? = nil
    ) async throws -> UploadAnswer {
        guard let parent = operation else { throw CancellationError() }
        try Task.checkCancellation()
        let part = HTTPRequestOperation(request: try filled(request, body))
        part.adoptSettings(of: parent, decoding: true)
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        part.responseSerializer = serializer
        // Do not report sent bytes, because progress counts confirmed bytes.
        part.interimResponseHandler = interim
        state.withLock { if $0.mustNotRepeat { $0.unrepeatable = part } }
        defer { state.withLock { if $0.unrepeatable === part { $0.unrepeatable = nil } } }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                part.whenDelivered { continuation.resume() }
                part.start()
            }
        } onCancel: {
            part.cancel()
        }
        if let error = part.error {
            try Task.checkCancellation()
            if let cause = (error as? URLError)?.userInfo[NSUnderlyingErrorKey] as? UploadError { throw cause }
            throw UploadFailure(error: error, head: part.responseHead)
        }
        guard let head = part.responseHead else {
            throw UploadFailure(error: URLError(.badServerResponse, url: request.url, "The server sent no response."))
        }
        state.withLock { $0.work }?.hostDidAnswer()
        // Reject the response if a redirect has changed the method, or would have changed it if followed.
        guard part.redirects.allSatisfy({ $0.previousMethod == $0.method }) else {
            throw UploadError(
                .invalidAnswer("A redirect has changed the method from \(request.httpMethod ?? "that of the request")."))
        }
        return UploadAnswer(
            head: head, data: part.responseData, redirects: part.redirects, sent: part.transferProgress.bytesSent)
    }

    private func filled(_ request: URLRequest, _ body: UploadRequestBody) throws -> URLRequest {
        var request = request
        switch body {
        case .none:
            if ["POST", "PATCH", "PUT"].contains(request.httpMethod ?? "") {
                request.httpBody = Data()
                request.setValue("0", forHTTPHeaderField: "Content-Length")
            }
        case .data(let data):
            request.httpBody = data
            request.setValue("\(data.count)", forHTTPHeaderField: "Content-Length")
        case .range(let source, let range):
            request.setValue("\(range.upperBound - range.lowerBound)", forHTTPHeaderField: "Content-Length")
            request.httpBodyStream = SourceRangeStream(source, range)
        case .stream(let length, let canRepeat, let make):
            request.httpBodyStream = SequenceBody.stream(canRepeat: canRepeat, making: make)
            if let length { request.setValue("\(length)", forHTTPHeaderField: "Content-Length") }
        }
        return request
    }

    /// Returns the failure for a response with an error status.
    func refusal(_ answer: UploadAnswer) -> UploadFailure {
        var strict = HTTPResponseSerializer()
        strict.acceptableStatusCodes = .successful
        do {
            try strict.validate(answer.head.urlResponse, data: answer.data ?? Data([0]))
        } catch {
            return UploadFailure(error: error, head: answer.head, data: answer.data, isOfStatus: true)
        }
        return UploadFailure(
            error: UploadError(.invalidAnswer("The status \(answer.status) was not expected.")), head: answer.head)
    }
}
