import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The servers that may receive the secrets of a run: those of `baseURL`, of the URLs that the manifest writes out, and of
/// `secrets-for`. A server that only a response names gets none, as after a redirect to another origin.
struct SecretServers: Sendable {
    private let known: Set<Target>
    private let base: URL?

    init(_ plan: WorkflowPlan) {
        let scope = plan.earlyScope
        var urls = plan.baseURL.map { [$0] } ?? []
        for request in plan.requests {
            var start = "", isWhole = true
            for piece in request.url.pieces where isWhole {
                switch piece {
                case .literal(let text): start += text
                case .reference(let reference):
                    guard let value = try? scope.value(of: reference) else {
                        isWhole = false
                        continue
                    }
                    start += value.json.text
                }
            }
            guard start.hasScheme, let url = URL(string: start), Target(url) != nil else { continue }
            // What follows the host could be a part of it.
            let authority = start.range(of: "://").map { start[$0.upperBound...] } ?? ""
            if isWhole || authority.contains(where: { "/?#".contains($0) }) { urls.append(url) }
        }
        known = Set(urls.compactMap { Target($0) }).union(plan.serversForSecrets)
        base = urls.first
    }

    /// Whether a URL is one of these servers.
    func contains(_ url: URL) -> Bool { Target(url).map(known.contains) ?? false }

    /// Removes the header fields that a redirect to the URL of the request would remove.
    func removeSecrets(of request: inout URLRequest) {
        // Without a URL of the manifest, any other origin has the same effect.
        guard let base = base ?? URL(string: "https://manifest.invalid/") else { return }
        ConnectionConfiguration().removeSecrets(of: &request, madeFor: base)
    }

    /// The first value that the request itself sends, and that is a secret which is not meant for the server of its URL.
    ///
    /// A value of the same response that has named the server is meant for it, as the fields of a form for an upload are.
    ///
    /// - Parameter source: the request whose response has named the server.
    static func ownSecret(of request: RequestPlan, in scope: ItemScope, from source: String) -> NamedValue? {
        request.values.first { value in
            guard !value.isDefault else { return false }
            let references = value.value.templates.flatMap(\.references)
            if !references.isEmpty, references.allSatisfy({ $0.root == source }) { return false }
            if references.contains(where: scope.values.plan.isMarked) { return true }
            return !value.secrets(in: scope).isEmpty
        }
    }
}
