import CLimit
import Foundation

extension Subject {
    /// Returns the plain C loop.
    static func limit(_ plan: RequestPlan) -> Subject {
        Subject(Trial.cLoop) { context in
            let result = try LimitLoop.run(plan, context, limit_requests)
            return .rate(
                plan.requests(context), Cost(seconds: result.seconds, cpuSeconds: result.cpu_seconds))
        }
    }
}

/// Functions that pass a plan to the C loop.
enum LimitLoop {
    /// - Throws: `BenchError` if the loop could not run, or a request failed.
    static func run(
        _ plan: RequestPlan, _ context: Context,
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
