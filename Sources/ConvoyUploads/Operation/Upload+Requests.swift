import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The answer to a request of an upload.
struct UploadAnswer: @unchecked Sendable {
    let head: ResponseHead
    let data: Data?
    let redirects: [RedirectEvent]
    /// How many bytes of the body were sent.
    let sent: Int64

    var status: Int { head.statusCode }
    var isSuccess: Bool { (200..<300).contains(status) }

    /// The number in a field; nil if there is none.
    ///
    /// - Throws: ``UploadError/Reason/invalidAnswer(_:)`` for one that is no number, or two that differ.
    func number(_ name: String) throws(UploadError) -> Int64? {
        let values = head.values(of: name)
        guard let first = values.first else { return nil }
        guard values.allSatisfy({ $0.utf8.elementsEqual(first.utf8) }), !first.isEmpty, first.utf8.allSatisfy(ASCII.isDigit),
            let number = Int64(first)
        else { throw UploadError(.invalidAnswer("\(name) is \"\(values.joined(separator: ", ").prefix(60))\".")) }
        return number
    }

    /// Whether a boolean of a structured field (RFC 9651, section 3.3.6) is true; nil if there is none.
    func flag(_ name: String) -> Bool? {
        switch head[name].map({ HTTPSyntax.trimmed($0[...]) }) {
        case "?1": true
        case "?0": false
        default: nil
        }
    }

    /// Whether a field of the draft is in it.
    var isOfDraft: Bool {
        head.hasField(
            "upload-complete", "upload-incomplete", "upload-offset", "upload-limit", "upload-draft-interop-version")
    }

    /// The URL of the upload that the answer names; nil if it names none.
    ///
    /// - Throws: ``UploadError/Reason/invalidAnswer(_:)`` for one that cannot be used.
    func location() throws(UploadError) -> URL? { try Self.location(head) }

    static func location(_ head: ResponseHead) throws(UploadError) -> URL? {
        let values = head.bytes(of: "Location")
        guard let first = values.first else { return nil }
        // Parsers disagree about control characters; user information would be the server's choice of our credentials.
        guard values.allSatisfy({ $0 == first }), !first.isEmpty, !first.contains(where: { $0 < 0x20 || $0 == 0x7F }),
            let url = URLReference.url(first, relativeTo: head.url), let address = HTTPAddress(url.absoluteString),
            !address.hasUserInfo
        else { throw UploadError(.invalidAnswer("The upload's URL cannot be used.")) }
        if !address.target.isSecure, Target(head.url)?.isSecure == true {
            throw UploadError(.invalidAnswer("The upload's URL is one of http, and that of the server is one of https."))
        }
        return url
    }
}

/// The body of a request of an upload.
enum UploadBody: Sendable {
    case none
    case data(Data)
    case range(any SeekableSource, Range<Int64>)
    /// A sequence, from its start.
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
    /// The request for a URL with the user's header fields but those of a body.
    func uploadRequest(_ method: String, _ url: URL) -> URLRequest {
        var request = self.request
        request.url = url
        request.httpMethod = method
        for name in ["Content-Type", "Content-Length", "Content-Encoding", "Digest", "Repr-Digest", "Content-Digest"] {
            request.setValue(nil, forHTTPHeaderField: name)
        }
        return request
    }

    /// Sends a request, and waits for its answer, whatever its status is.
    ///
    /// - Parameter interim: called on the network thread with interim responses; it must not block.
    /// - Throws: ``UploadFailure`` of the transfer; `CancellationError`; ``UploadError`` of the source.
    func send(
        _ request: URLRequest, _ body: UploadBody = .none,
        interim: (@Sendable (ResponseHead) -> Void)? = nil
    ) async throws -> UploadAnswer {
        guard let parent = operation else { throw CancellationError() }
        try Task.checkCancellation()
        let part = HTTPRequestOperation(request: try filled(request, body))
        part.adoptSettings(of: parent, decoding: true)
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        part.responseSerializer = serializer
        // Progress is what is confirmed, and not what is sent.
        part.interimResponseHandler = interim
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
            throw UploadFailure(error: URLError(.badServerResponse, url: request.url, "There is no response."))
        }
        state.withLock { $0.work }?.hostDidAnswer()
        // A redirect that the rules or a handler have kept, or that has turned the request into another one.
        guard part.redirects.allSatisfy({ $0.previousMethod == $0.method }) else {
            throw UploadError(
                .invalidAnswer("A redirect has turned \(request.httpMethod ?? "the request") into another method."))
        }
        return UploadAnswer(
            head: head, data: part.responseData, redirects: part.redirects, sent: part.transferProgress.bytesSent)
    }

    private func filled(_ request: URLRequest, _ body: UploadBody) throws -> URLRequest {
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

    /// The failure of an answer that is no success.
    func refusal(_ answer: UploadAnswer) -> UploadFailure {
        var strict = HTTPResponseSerializer()
        strict.acceptableStatusCodes = .successful
        do {
            try strict.validate(answer.head.urlResponse, data: answer.data ?? Data([0]))
        } catch {
            return UploadFailure(error: error, head: answer.head, data: answer.data, isOfStatus: true)
        }
        return UploadFailure(
            error: UploadError(.invalidAnswer("Its status is \(answer.status).")), head: answer.head)
    }
}
