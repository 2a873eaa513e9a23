import ConvoyTransport
import Foundation
import FoundationNetworking

/// Requests the rest of a partly received body, and decides about the received bytes with the answer.
///
/// A value without I/O. What the answer means is for ``KnownRepresentation`` to say.
package struct Resumption: Sendable, Equatable {
    package let known: KnownRepresentation
    /// The URL of the representation; its validators mean nothing at another one.
    package let url: URL
    /// How many bytes have been received.
    package var offset: Int64 { known.received }

    /// What the head of the answer means for the bytes already received.
    package enum Verdict: Equatable, Sendable {
        /// The rest follows: append until there are `total` bytes.
        case append(total: Int64)
        /// The whole body follows from its first byte: drop what was received.
        case startOver
        /// The body is already complete.
        case alreadyComplete
        /// The answer is unusable: request the whole body, without a range.
        case askForWhole
        /// The answer is not about the body, such as a server error: it becomes the response, and the received bytes
        /// are kept.
        case unrelated
        /// The answer to a request for the whole contradicts earlier answers.
        case contradiction
    }

    /// How to continue after an attempt that received `offset` bytes of the body that `head` announced; nil if only
    /// starting over from the first byte is safe.
    ///
    /// - Parameter total: the length of the whole body, if another answer than `head` stated it.
    package init?(after head: ResponseHead?, of request: URLRequest, offset: Int64, total: Int64? = nil) {
        guard let head, offset > 0, head.statusCode == 200, !head.isEncoded,
            (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil,
            request.value(forHTTPHeaderField: "Range") == nil,
            let validators = KnownRepresentation.Validators(of: head)
        else { return nil }
        known = KnownRepresentation(validators: validators, length: total ?? head.contentLength, received: offset)
        url = head.url
    }

    /// The request for the rest.
    package func request(_ request: URLRequest) -> URLRequest {
        var request = request
        request.setValue("bytes=\(offset)-", forHTTPHeaderField: "Range")
        request.setValue(known.validators?.condition, forHTTPHeaderField: "If-Range")
        return request
    }

    /// What the answer to that request means.
    package func evaluate(_ head: ResponseHead) -> Verdict {
        switch known.evaluate(head, from: offset, upTo: known.length, isSamePlace: isSamePlace(head)) {
        // A range that stops short of the total leaves a gap.
        case .part(let last, let total): last == total - 1 ? .append(total: total) : .askForWhole
        case .whole: .startOver
        case .complete: .alreadyComplete
        case .useless, .differs: .askForWhole
        case .unrelated: .unrelated
        }
    }

    /// What the answer to a request for the whole means, after an answer to the range was unusable.
    package func evaluateWhole(_ head: ResponseHead) -> Verdict {
        known.isDenied(byWhole: head, isSamePlace: isSamePlace(head)) ? .contradiction : .startOver
    }

    /// What is known about the body that a head announces, if it is the same one.
    package func known(of head: ResponseHead) -> KnownRepresentation? {
        known.hasTag(of: head, isSamePlace: isSamePlace(head)) ? known : nil
    }

    private func isSamePlace(_ head: ResponseHead) -> Bool {
        func bytes(_ url: URL) -> Substring.UTF8View { url.absoluteString.utf8.prefix { $0 != UInt8(ascii: "#") } }
        return bytes(head.url).elementsEqual(bytes(url))
    }
}
