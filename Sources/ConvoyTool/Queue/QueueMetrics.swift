import ConvoySharedQueue
import ConvoySupport
import Foundation

/// The metrics of a queue and a worker, in the Prometheus text format 0.0.4.
enum QueueMetrics {
    static let type = "text/plain; version=0.0.4; charset=utf-8"

    static func text(_ overview: QueueOverview?, _ statistics: SharedQueueWorker.Statistics?) -> String {
        var text = ""
        func add(
            _ name: String, _ type: String, _ help: String, _ samples: [(labels: String, value: any CustomStringConvertible)]
        ) {
            text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
            for sample in samples { text += "\(name)\(sample.labels) \(sample.value)\n" }
        }
        if let statistics {
            add(
                "convoy_worker_claimed_total", "counter", "Entries that this worker has claimed.", [("", statistics.claimed)]
            )
            add(
                "convoy_worker_attempts_total", "counter", "Attempts of this worker that have ended, by outcome.",
                [
                    ("{outcome=\"succeeded\"}", statistics.succeeded),
                    ("{outcome=\"failed_for_now\"}", statistics.failedForNow),
                    ("{outcome=\"failed\"}", statistics.failed), ("{outcome=\"abandoned\"}", statistics.abandoned),
                    ("{outcome=\"returned\"}", statistics.returned),
                ])
            add("convoy_worker_running", "gauge", "Entries that this worker is processing.", [("", statistics.running)])
            add(
                "convoy_worker_connected", "gauge", "1 if this worker is connected to the database, otherwise 0.",
                [("", statistics.isConnected ? 1 : 0)])
        }
        add("convoy_queue_up", "gauge", "1 if the database responds, otherwise 0.", [("", overview == nil ? 0 : 1)])
        guard let overview else { return text }
        add(
            "convoy_queue_entries", "gauge", "Entries by state.",
            WorkState.allCases.map { ("{state=\"\($0.rawValue)\"}", overview.counts[$0] ?? 0) })
        add("convoy_queue_workers", "gauge", "Live workers.", [("", overview.workers.count)])
        add(
            "convoy_queue_oldest_ready_seconds", "gauge", "The time for which the oldest ready entry has been ready.",
            [("", number(overview.oldestReadyAge ?? 0))])
        add(
            "convoy_queue_host_oldest_ready_seconds", "gauge",
            "The time for which the oldest ready entry of a host has been ready, of the hosts with the oldest ones.",
            overview.oldestHosts.map { ("{host=\"\(label($0.host))\"}", number($0.age)) })
        durations(overview, &text)
        add(
            "convoy_queue_paused", "gauge", "1 if the whole queue is paused, otherwise 0.", [("", overview.isPaused ? 1 : 0)]
        )
        return text
    }

    /// Adds a histogram of the durations of requests for each host. The database has about a hundred hosts, and counts
    /// the others together.
    private static func durations(_ overview: QueueOverview, _ text: inout String) {
        let name = "convoy_queue_request_duration_seconds"
        text += "# HELP \(name) Durations of requests by host, without the time in the queue; \"\" stands for other hosts.\n"
        text += "# TYPE \(name) histogram\n"
        for (host, durations) in overview.durations.sorted(by: { $0.key < $1.key }) {
            let host = "host=\"\(label(host))\""
            var sum = 0
            for (index, count) in durations.counts.enumerated() {
                sum += count
                let bounds = RequestDurations.bounds
                let bound = bounds.indices.contains(index) ? number(bounds[index]) : "+Inf"
                text += "\(name)_bucket{\(host),le=\"\(bound)\"} \(sum)\n"
            }
            text += "\(name)_sum{\(host)} \(number(durations.total))\n\(name)_count{\(host)} \(sum)\n"
        }
    }

    private static func number(_ value: Double) -> String { QueueText.number((value * 1e6).rounded() / 1e6) }

    /// Returns the value of a label, without its quotes.
    private static func label(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    /// Returns the response to a request for metrics.
    static func response(_ queue: SharedQueue, _ statistics: SharedQueueWorker.Statistics?) -> LoopbackServer.Response {
        let overview = try? QueueCall.result { try await QueueOverview(queue) }
        return LoopbackServer.Response(
            fields: ["Content-Type": type, "Cache-Control": "no-store"],
            body: Data(text(overview, statistics).utf8))
    }

    /// Serves the metrics of a worker until the program ends.
    static func serve(
        _ options: Options, _ queue: SharedQueue,
        _ statistics: @escaping @Sendable () -> SharedQueueWorker.Statistics
    ) throws(ToolError) -> LoopbackServer? {
        guard let text = options.value("metrics") else { return nil }
        let digits = text.hasPrefix("127.0.0.1:") ? String(text.dropFirst("127.0.0.1:".count)) : text
        guard let port = UInt16(digits) else {
            throw options.usage("--metrics takes a port on this machine: 9187, or 127.0.0.1:9187")
        }
        return try LoopbackAddress.serve(port) { request in
            guard LoopbackAddress.isLoopback(request) else {
                return .refusal(
                    403,
                    "The Host header must name this machine.")
            }
            guard request.method == "GET" || request.method == "HEAD" else { return .refusal(405, "Only GET is supported.") }
            guard request.path == "/metrics" else { return .refusal(404, "The metrics are at /metrics.") }
            return response(queue, statistics())
        }
    }
}

/// Functions for servers that only this machine can reach.
enum LoopbackAddress {
    static func serve(
        _ port: UInt16, _ handler: @escaping LoopbackServer.Handler
    ) throws(ToolError) -> LoopbackServer {
        do {
            return try LoopbackServer(port: port, recordsRequests: false, handler)
        } catch {
            throw .failure("cannot listen on 127.0.0.1:\(port): \(ErrorText.line(for: error))")
        }
    }

    /// Returns whether a request was sent to a name of this machine. This check rejects pages of other sites whose host
    /// names resolve to this machine.
    static func isLoopback(_ request: LoopbackServer.Request) -> Bool {
        guard let host = request.fields["host"], let target = Target("http://\(host)") else { return false }
        return HostName(target.host)?.isLoopback ?? false
    }
}

extension LoopbackServer.Response {
    /// Returns a refusal with a line of text.
    static func refusal(_ status: Int, _ text: String) -> Self {
        Self(
            status: status, fields: ["Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"],
            body: Data("\(text)\n".utf8))
    }
}
