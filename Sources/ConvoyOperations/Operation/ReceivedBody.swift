import ConvoyTransport
import Foundation
import FoundationNetworking

/// The received part of a response's body, and what is known about the rest. It passes from each attempt to the next,
/// and belongs to the attempt that holds it.
struct ReceivedBody: ~Copyable {
    /// Whether the destination of the bytes was chosen, which happens when the first attempt is about to connect.
    private(set) var hasPlace = false
    /// The sink for the body; nil if the body goes to memory.
    private(set) var sink: SinkQueue?
    private(set) var memory = MemoryBody()
    /// The body of a response that does not go into the sink, or does not continue the bytes already received.
    private(set) var separateBody: MemoryBody?
    /// The request of the last attempt, without a range.
    private(set) var request: TransferRequest?
    /// The head that the bytes in the sink belong to.
    private(set) var head: ResponseHead?
    /// The length of the whole body as sent: from `head`, or from the answer to a range.
    private(set) var total: Int64?
    /// The range that the current attempt asked for, or an earlier one whose answer was unusable.
    private(set) var resumption: Resumption?
    /// Whether an answer to a range was unusable. Attempts then request the whole body until it begins to arrive with
    /// its length; `resumption` stays for what is known about it.
    private var asksForWhole = false
    /// What earlier answers have stated about a body that arrives anew: its length, and how many bytes it has at least.
    private var knownTotal: Int64?
    private var leastTotal: Int64 = 0
    /// Why the rest of the body was not waited for; nil if it was.
    var cut: URLError?
    /// Whether a response that asks for credentials is awaited whole: there is no answer to it, so that it is the result.
    private(set) var isQuestionResult = false

    var isInMemory: Bool { sink == nil }

    /// How many bytes of the body were kept so far.
    var offset: Int64 { sink?.offset ?? memory.count }

    /// How many bytes of the response have arrived.
    var count: Int64 { separateBody?.count ?? offset }

    /// Whether the request's body may have been read, so that a stream must be replayed.
    var mayHaveSentBody: Bool { request != nil }

    // MARK: Requests

    /// Sends the bytes to a sink; nil for memory.
    mutating func place(in sink: SinkQueue?) { (self.sink, hasPlace) = (sink, true) }

    /// The request of an attempt that begins: for the rest of the body, if possible.
    mutating func begin(sending request: consuming TransferRequest) -> TransferRequest {
        self.request = copy request
        (separateBody, cut) = (nil, nil)
        if asksForWhole { return request }
        resumption = nil
        guard let head else { return request }
        let whole = request.urlRequest
        resumption = Resumption(after: head, of: whole, offset: offset, total: total)
        return .foundation(resumption?.request(whole) ?? whole)
    }

    /// Notes that the received bytes are unusable: the next attempt requests the whole body.
    mutating func requestWhole() { asksForWhole = true }

    /// A response that asks for credentials was cut, and is the result: the next attempt waits for all of it.
    mutating func requestQuestion() { isQuestionResult = true }

    // MARK: Answers

    /// What a response means for the bytes already received.
    func evaluate(_ response: ResponseHead) -> Resumption.Verdict {
        guard let resumption else { return .startOver }
        return asksForWhole ? resumption.evaluateWhole(response) : resumption.evaluate(response)
    }

    /// Continues until there are this many bytes.
    mutating func goOn(to whole: Int64) { total = whole }

    /// Notes that the whole body arrives with a response.
    mutating func willStartOver(with response: ResponseHead) {
        let known = resumption?.known(of: response)
        (knownTotal, leastTotal) = (known?.length, known?.received ?? 0)
        // A response without a length may be a part that calls itself the whole: it is never continued.
        asksForWhole = resumption != nil && (!(200..<300).contains(response.statusCode) || response.contentLength == nil)
        if !asksForWhole { resumption = nil }
    }

    /// Starts over with the first byte of a response's body.
    mutating func startOver(with response: ResponseHead) {
        head = response
        let hasBody = request?.method != "HEAD" && response.statusCode != 204 && response.statusCode != 304
        total = hasBody && !response.isEncoded ? response.contentLength ?? knownTotal : nil
    }

    /// Forgets all bytes in memory, for a body of the length that was announced.
    mutating func startOverInMemory() { memory.startOver(expecting: total) }

    /// Stores the following bytes apart from those already received.
    mutating func keepSeparately() { separateBody = MemoryBody() }

    // MARK: Bytes

    /// Adds bytes that do not go into a sink.
    mutating func append(_ data: UnsafeRawBufferPointer) {
        if separateBody == nil { memory.append(data) } else { separateBody?.append(data) }
    }

    /// Whether there are more bytes than the range announced, so that the response cannot be trusted.
    func exceedsRange(with count: Int64) -> Bool {
        guard let total, count > total else { return false }
        return resumption != nil && !asksForWhole
    }

    /// Why the body is incomplete although the transfer has succeeded; nil if it is complete.
    var shortfall: URLError? {
        guard separateBody == nil, cut == nil else { return nil }
        if let total, offset != total {
            return URLError(.networkConnectionLost, url: request?.url, "\(offset) of \(total) bytes have arrived.")
        }
        guard offset < leastTotal else { return nil }
        return URLError(.networkConnectionLost, url: request?.url, "Fewer bytes have arrived than before.")
    }
}

/// A body that is kept in memory.
struct MemoryBody {
    private(set) var data = Data()

    var count: Int64 { Int64(data.count) }

    /// Forgets all bytes.
    ///
    /// - Parameter expected: the announced length, if there is one. No more than 64 MiB are reserved on the server's
    ///   word.
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
