import Convoy
import Foundation

/// Repeated GETs of one small resource, made by all subjects of the `small-get` cases.
struct RequestPlan: Sendable {
    var path: String
    var fullCount: Int
    var inFlight: Int
    var usesHTTP2 = false
    /// Whether TLS is used; always with HTTP/2.
    var isSecure = false
    var expectedBytes: Int
    /// Header fields of the C loop's requests.
    var fields: [String: String] = [:]

    /// Returns the number of measured requests.
    func requests(_ context: Context) -> Int { context.count(fullCount) }

    /// Returns the number of warm-up requests, which open the connections.
    func warmUp(_ context: Context) -> Int { max(inFlight * 2, 100) }

    func url(_ context: Context) -> URL { base(context).appendingPathComponent(path) }

    func base(_ context: Context) -> URL { usesHTTP2 || isSecure ? context.secureURL : context.url }

    /// Returns the same plan with fewer requests, for a subject that takes much longer.
    func reduced(to count: Int) -> RequestPlan {
        var plan = self
        plan.fullCount = min(count, fullCount)
        return plan
    }

    /// Returns the same plan with the header fields that Convoy sends.
    func withFieldsOfConvoy() throws -> RequestPlan {
        var plan = self
        guard let url = URL(string: "http://localhost/") else { throw BenchError("no URL") }
        let request = try HTTPRequestSerializer().request(method: .get, url: url, parameters: nil, headers: [:])
        plan.fields = request.allHTTPHeaderFields ?? [:]
        plan.fields["Accept-Encoding"] = plan.fields["Accept-Encoding"] ?? "gzip, br, zstd"
        return plan
    }
}
