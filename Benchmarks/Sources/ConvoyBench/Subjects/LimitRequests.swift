import CLimit
import Foundation

extension Subject {
    /// Returns the plain C loop.
    ///
    /// - Parameter isTuned: Whether the loop sends Convoy's header fields, keeps its sockets registered and parses the URL once,
    ///   as Convoy does. This is the limit of what libcurl allows.
    static func limit(_ plan: RequestPlan, isTuned: Bool = false) -> Subject {
        Subject(isTuned ? "limit-tuned" : Trial.cLoop) { context in
            let plan = isTuned ? try plan.withFieldsOfConvoy() : plan
            let result = try LimitLoop.run(plan, context, isTuned: isTuned, limit_requests)
            return .rate(
                plan.requests(context), Cost(seconds: result.seconds, cpuSeconds: result.cpu_seconds))
        }
    }
}

/// Functions that pass a plan to the C loop.
enum LimitLoop {
    /// - Throws: `BenchError` if the loop could not run, or a request failed.
    static func run(
        _ plan: RequestPlan, _ context: Context, isTuned: Bool = false,
        _ loop: (UnsafePointer<limit_plan>, UnsafeMutablePointer<limit_result>) -> Int32
    ) throws -> limit_result {
        var result = limit_result()
        let code = plan.url(context).absoluteString.withCString { url in
            context.certificateAuthority.path.withCString { authority in
                var raw = limit_plan()
                raw.url = url
                raw.authority = plan.usesHTTP2 || plan.isSecure ? authority : nil
                raw.warm_up = plan.warmUp(context)
                raw.requests = plan.requests(context)
                raw.in_flight = Int32(plan.inFlight)
                raw.http2 = plan.usesHTTP2 ? 1 : 0
                raw.expected_bytes = plan.expectedBytes
                raw.tuned = isTuned ? 1 : 0
                guard !plan.fields.isEmpty else { return loop(&raw, &result) }
                return plan.fields.map { "\($0): \($1)\n" }.sorted().joined().withCString { fields in
                    raw.fields = fields
                    return loop(&raw, &result)
                }
            }
        }
        guard code == 0 else { throw BenchError("cannot set up the C loop") }
        try BenchError.check(failed: result.failed, of: plan.requests(context))
        return result
    }
}
