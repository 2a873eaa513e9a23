import ConvoyTransport
import Foundation
import FoundationNetworking

/// The received part of a response body, and what is known about the rest. Each attempt passes it to the next one, so
/// it belongs to one attempt at any time.
struct ReceivedBody: ~Copyable {
    /// Whether the destination of the body has been chosen, which happens just before the first attempt connects.
    private(set) var hasPlace = false
    /// The sink for the body; nil if the body is kept in memory.
    private(set) var sink: SinkQueue?
    private(set) var memory = MemoryBody()
    /// The body of a response that is kept apart, because it is not written to the sink or does not continue the bytes
    /// already received.
    private(set) var separateBody: MemoryBody?
    /// The request of the last attempt, without a range.
    private(set) var request: TransferRequest?
    /// The head of the response whose body bytes have been stored.
    private(set) var head: ResponseHead?
    /// The length of the complete body as sent, taken from `head` or from the response to a range request.
    private(set) var total: Int64?
    /// The range requested by the current attempt, or by an earlier attempt whose response was unusable.
    private(set) var resumption: Resumption?
    /// Whether the response to a range request was unusable. Attempts then request the complete body until a response
    /// declares its length; `resumption` is kept for what is known about the body.
    private var asksForWhole = false
    /// The length, and the minimum number of bytes, that earlier responses have established for a body that is being
    /// received again.
    private var knownTotal: Int64?
    private var leastTotal: Int64 = 0
    /// The reason why the body was truncated; nil if it was not.
    var cut: URLError?
    /// Whether a response with a challenge must be received completely, because the challenge cannot be answered and
    /// the response is the result.
    private(set) var isQuestionResult = false

    var isInMemory: Bool { sink == nil }

    /// The number of body bytes stored so far.
    var offset: Int64 { sink?.offset ?? memory.count }

    /// The number of body bytes of the current response, including bytes kept from earlier attempts that it continues.
    var count: Int64 { separateBody?.count ?? offset }

    /// Whether the request body may have been read, so that a stream must be replayed.
    var mayHaveSentBody: Bool { request != nil }

    // MARK: Requests

    /// Sets the destination of the body: a sink, or memory if `sink` is nil.
    mutating func place(in sink: SinkQueue?) {
        self.sink = sink
        hasPlace = true
    }

    /// Returns the request of a new attempt, which requests only the rest of the body if possible.
    mutating func begin(sending request: consuming TransferRequest) -> TransferRequest {
        self.request = copy request
        separateBody = nil
        cut = nil
        if asksForWhole { return request }
        resumption = nil
        guard let head else { return request }
        let whole = request.urlRequest
        resumption = Resumption(after: head, of: whole, offset: offset, total: total)
        return TransferRequest(resumption?.request(whole) ?? whole)
    }

    /// Makes the next attempt request the complete body, because the response was unusable.
    mutating func requestWhole() { asksForWhole = true }

    /// Makes the next attempt receive a truncated response with a challenge completely, because that response is the
    /// result.
    mutating func requestQuestion() { isQuestionResult = true }

    // MARK: Responses

    /// Returns the effect of a response on the bytes already received.
    func evaluate(_ response: ResponseHead) -> Resumption.Verdict {
        guard let resumption else { return .startOver }
        return asksForWhole ? resumption.evaluateWhole(response) : resumption.evaluate(response)
    }

    /// Continues the stored body, whose complete length is `whole` bytes.
    mutating func goOn(to whole: Int64) { total = whole }

    /// Records that a response contains the complete body.
    mutating func willStartOver(with response: ResponseHead) {
        let known = resumption?.known(of: response)
        knownTotal = known?.length
        leastTotal = known?.received ?? 0
        // A response without a length may be a partial body declared as complete, so it is never resumed.
        asksForWhole = resumption != nil && (!(200..<300).contains(response.statusCode) || response.contentLength == nil)
        if !asksForWhole { resumption = nil }
    }

    /// Starts over at the first byte of a response body.
    mutating func startOver(with response: ResponseHead) {
        head = response
        let hasBody = request?.method != "HEAD" && response.statusCode != 204 && response.statusCode != 304
        total = hasBody && !response.isEncoded ? response.contentLength ?? knownTotal : nil
    }

    /// Discards all bytes in memory, and prepares for a body of the declared length.
    mutating func startOverInMemory() { memory.startOver(expecting: total) }

    /// Keeps the bytes that follow apart from those already received.
    mutating func keepSeparately() { separateBody = MemoryBody() }

    // MARK: Bytes

    /// Appends bytes that are not written to a sink.
    mutating func append(_ data: UnsafeRawBufferPointer) {
        if separateBody == nil { memory.append(data) } else { separateBody?.append(data) }
    }

    /// Returns whether `count` bytes are more than the response to a range request declared, so that the response
    /// cannot be trusted.
    func exceedsRange(with count: Int64) -> Bool {
        guard let total, count > total else { return false }
        return resumption != nil && !asksForWhole
    }

    /// The reason why the body is incomplete although the transfer has succeeded; nil if it is complete.
    var shortfall: URLError? {
        guard separateBody == nil, cut == nil else { return nil }
        if let total, offset != total {
            return URLError(.networkConnectionLost, url: request?.url, "Only \(offset) of \(total) bytes were received.")
        }
        guard offset < leastTotal else { return nil }
        return URLError(.networkConnectionLost, url: request?.url, "Fewer bytes were received than in an earlier attempt.")
    }
}

/// A body that is kept in memory.
struct MemoryBody {
    private(set) var data = Data()

    var count: Int64 { Int64(data.count) }

    /// Discards all bytes.
    ///
    /// - Parameter expected: The declared length, if any. At most 64 MiB are reserved in advance.
    mutating func startOver(expecting expected: Int64?) {
        data = Data()
        if let expected, expected > 4096, expected <= 64 << 20 { data.reserveCapacity(Int(expected)) }
    }

    mutating func append(_ block: UnsafeRawBufferPointer) {
        if data.isEmpty, block.count <= 4096, let base = block.baseAddress {
            data = Data(bytes: base, count: block.count)
        } else {
            data.append(contentsOf: block)
        }
    }
}
