import Foundation

extension Subject {
    /// Returns Node's `http` or `http2`.
    static func node(_ plan: RequestPlan) -> Subject {
        Subject("node", needs: "node") { context in
            try External.requests(
                "node", [External.scripts.appendingPathComponent("requests.mjs").path], plan: plan, context: context)
        }
    }

    /// Returns Go's `net/http`.
    static func go(_ plan: RequestPlan) -> Subject {
        Subject("go", needs: "go") { context in
            try External.requests(External.goProgram("requests", context: context), [], plan: plan, context: context)
        }
    }

    /// Returns the `curl` program, with all URLs in one call, including its startup.
    static func curl(_ plan: RequestPlan) -> Subject {
        Subject("curl", needs: "curl") { context in
            let count = plan.requests(context)
            var arguments = ["-q", "-s", "-f", "-o", "/dev/null"]
            if plan.inFlight > 1 { arguments += ["-Z", "--parallel-max", "\(plan.inFlight)"] }
            if plan.usesHTTP2 { arguments += ["--cacert", context.certificateAuthority.path] }
            arguments.append("\(plan.url(context).absoluteString)?[1-\(count)]")
            let run = try External.whole("curl", arguments, context: context)
            return .rate(count, run.cost, peakKilobytes: run.peakKilobytes)
        }
    }
}
