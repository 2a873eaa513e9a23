import ConvoySupport
import Foundation
import FoundationNetworking

/// The requests of a transfer that were redirected, to find a loop before the limit is reached. A value without I/O.
///
/// Only GET and HEAD count: another method may have changed what the server answers. A response that sets a cookie, or
/// asks to wait, may have changed it too, so everything before it is forgotten.
struct RedirectChain {
    private struct Step: Hashable {
        let url: String
        let method: String
        let fields: [String: String]

        /// Nil for a request whose repetition may have another answer.
        init?(_ request: URLRequest) {
            let method = request.httpMethod ?? "GET"
            guard method == "GET" || method == "HEAD", let url = request.url?.absoluteString else { return nil }
            let text = HTTPAddress(url)?.text ?? url
            // A fragment is not sent.
            self.url = String(text.prefix { $0 != "#" })
            self.method = method
            fields = request.allHTTPHeaderFields ?? [:]
        }
    }

    private var steps: Set<Step> = []

    /// Notes that a request was redirected.
    mutating func note(_ request: URLRequest, redirectedBy response: ResponseHead) {
        if response.hasField("set-cookie", "retry-after") { return steps.removeAll() }
        if let step = Step(request) { steps.insert(step) }
    }

    /// Whether the request was redirected before, and nothing has changed since.
    func leadsBack(to request: URLRequest) -> Bool { Step(request).map(steps.contains) ?? false }
}
