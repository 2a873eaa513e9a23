import ConvoyTransport
import Foundation
import FoundationNetworking

/// The continuation of a partly received body. It creates the request for the rest, and decides from the response
/// whether the received bytes are kept.
///
/// This value type performs no I/O. ``RepresentationFacts`` interprets the response.
package struct Resumption: Sendable, Equatable {
    package let known: RepresentationFacts
    /// The URL of the representation. Its validators are meaningless for any other URL.
    package let url: URL
    /// The number of bytes received.
    package var offset: Int64 { known.received }

    /// The consequence of a response's head for the bytes already received.
    package enum Verdict: Equatable, Sendable {
        /// The rest follows. Append it to the received bytes, up to `total` bytes.
        case append(total: Int64)
        /// The complete body follows from its first byte. Discard the received bytes.
        case startOver
        /// The body is already complete.
        case alreadyComplete
        /// The response is unusable. Request the complete body, without a range.
        case askForWhole
        /// The response does not describe the body, for example a server error. It becomes the final response, and the
        /// received bytes are kept.
        case unrelated
        /// The response to a request for the complete body contradicts earlier responses.
        case contradiction
    }

    /// Creates the continuation of an attempt that received `offset` bytes of the body described by `head`. Returns nil
    /// if only starting over from the first byte is safe.
    ///
    /// - Parameter total: The length of the complete body, if a response other than `head` has stated it.
    package init?(after head: ResponseHead?, of request: URLRequest, offset: Int64, total: Int64? = nil) {
        guard let head, offset > 0, head.statusCode == 200, !head.isEncoded,
            (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil,
            request.value(forHTTPHeaderField: "Range") == nil,
            let validators = RepresentationFacts.Validators(of: head)
        else { return nil }
        known = RepresentationFacts(validators: validators, length: total ?? head.contentLength, received: offset)
        url = head.url
    }

    /// Returns the request for the rest of the body.
    package func request(_ request: URLRequest) -> URLRequest {
        var request = request
        request.setValue("bytes=\(offset)-", forHTTPHeaderField: "Range")
        request.setValue(known.validators?.condition, forHTTPHeaderField: "If-Range")
        return request
    }

    /// Evaluates the response to the request for the rest.
    package func evaluate(_ head: ResponseHead) -> Verdict {
        switch known.evaluate(head, from: offset, upTo: known.length, isSamePlace: isSamePlace(head)) {
        // A range that ends before the total length would leave a gap.
        case .part(let last, let total): last == total - 1 ? .append(total: total) : .askForWhole
        case .whole: .startOver
        case .complete: .alreadyComplete
        case .useless, .differs: .askForWhole
        case .unrelated: .unrelated
        }
    }

    /// Evaluates the response to a request for the complete body, after the response to the range request was unusable.
    package func evaluateWhole(_ head: ResponseHead) -> Verdict {
        known.isDenied(byWhole: head, isSamePlace: isSamePlace(head)) ? .contradiction : .startOver
    }

    /// Returns what is known about the body if a head describes the same body; otherwise nil.
    package func known(of head: ResponseHead) -> RepresentationFacts? {
        known.hasTag(of: head, isSamePlace: isSamePlace(head)) ? known : nil
    }

    private func isSamePlace(_ head: ResponseHead) -> Bool {
        func bytes(_ url: URL) -> Substring.UTF8View { url.absoluteString.utf8.prefix { $0 != UInt8(ascii: "#") } }
        return bytes(head.url).elementsEqual(bytes(url))
    }
}
