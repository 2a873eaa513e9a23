import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The table of server behaviours. A download that is paused halfway and resumed ends as the row specifies.
@Suite struct BehaviourTableTests {
    private static let size = 100_000

    /// Downloads the resource with one pause, and returns the outcome; nil for wrong bytes.
    private func outcome(
        of behaviour: ServerBehaviour, from server: TestServer, by nginx: Nginx? = nil
    ) throws -> (outcome: ResumeOutcome?, detail: String) {
        let held = Guarded<Int?>(nil), gate = TestServer.Gate()
        // The first body stalls in the middle, so that the pause occurs there.
        let resource = server.route("/\(behaviour)", behaving: behaviour, size: Self.size, seed: 2) { _, response in
            let half = response.body.count / 2
            let isFirst = held.withLock { held in
                guard held == nil, half > 1_000 else { return false }
                held = half
                return true
            }
            return isFirst ? response.heldBody(by: gate, afterBytes: half) : response
        }
        defer { server.removeRoute(resource) }
        let url = nginx?.secureURL("forward\(resource.path)") ?? server.url(resource.path)
        let probe = Probe(url, timeout: behaviour.stalls ? 1 : 60)
        probe.operation.connectionConfiguration.certificateAuthorities = nginx?.certificateAuthority
        let isPaused = Guarded(false)
        probe.operation.downloadProgressHandler = { [weak operation = probe.operation] _, total, _ in
            // The decoded body may be slightly shorter than the bytes sent.
            guard let half = held.withLock({ $0 }), total > half - 100 else { return }
            let isFirst = isPaused.withLock { isPaused in
                defer { isPaused = true }
                return !isPaused
            }
            guard isFirst else { return }
            operation?.pause()
            operation?.resume()
        }
        probe.operation.start()
        let told = try #require(probe.outcome(), "\(behaviour): never arrived: \(probe.operation)")
        #expect(told.count == 2, "\(behaviour): \(told)")
        if nginx != nil, let response = probe.operation.response {
            #expect(response.value(forHTTPHeaderField: "X-Server-Protocol") == "HTTP/2.0", "\(behaviour)")
        }
        let answers = resource.answers
        let detail =
            "\(behaviour) answered " + answers.map { "\($0.range ?? "whole"): \($0.status)" }.joined(separator: ", ")
        if let error = probe.operation.error { return (.failed, "\(detail); \(error)") }
        let body = probe.operation.responseData ?? Data()
        guard let status = probe.operation.statusCode, resource.accepts(body, status: status) else {
            return (nil, "\(detail); \(body.count) bytes")
        }
        return (answers.last?.status == 206 ? .appended : .startedOver, detail)
    }

    private func check(_ behaviour: ServerBehaviour, from server: TestServer, by nginx: Nginx? = nil) throws {
        let (outcome, detail) = try outcome(of: behaviour, from: server, by: nginx)
        guard !behaviour.isUndetectable else { return }
        let isExpected = outcome.map { behaviour.outcomes.contains($0) } ?? false
        let wanted = behaviour.outcomes.map(\.rawValue).sorted()
        #expect(isExpected, "\(outcome?.rawValue ?? "WRONG BYTES") instead of \(wanted): \(detail)")
    }

    @Test(arguments: ServerBehaviour.chosen)
    func `a download paused halfway ends as the table specifies`(behaviour: ServerBehaviour) throws {
        try check(behaviour, from: try TestServer())
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `a download paused halfway over HTTP/2 ends as the table specifies`() throws {
        let server = try TestServer()
        let nginx = try Nginx(forwardingTo: server.port)
        for behaviour in ServerBehaviour.chosen where behaviour.passesNginx {
            try check(behaviour, from: server, by: nginx)
        }
    }
}
