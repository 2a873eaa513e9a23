import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The servers that may receive the secrets of a run: those of `baseURL`, of literal URLs in the manifest, and of
/// `secrets-for`. A server that is named only by a response receives no secrets, as after a redirect to a different
/// origin.
struct SecretServers: Sendable {
    private let known: SecretScope
    private let base: URL?

    init(_ plan: WorkflowPlan) {
        let scope = plan.earlyScope
        var urls = plan.baseURL.map { [$0] } ?? []
        for request in plan.requests {
            var start = "", isWhole = true
            for piece in request.url.pieces where isWhole {
                if case .expression(let expression) = piece, expression.isVolatile { isWhole = false }
                guard isWhole, let value = try? piece.value(in: scope) else {
                    isWhole = false
                    continue
                }
                start += value.json.text
            }
            guard start.hasScheme, let url = URL(string: start), Target(url) != nil else { continue }
            // Characters after the host could belong to the host.
            let authority = start.range(of: "://").map { start[$0.upperBound...] } ?? ""
            if isWhole || authority.contains(where: { "/?#".contains($0) }) { urls.append(url) }
        }
        known = SecretScope(urls.compactMap { Target($0) } + plan.serversForSecrets)
        base = urls.first
    }

    /// Returns whether the server of a URL may receive secrets.
    func contains(_ url: URL) -> Bool { known.mayReceiveSecrets(url) }

    /// Removes the header fields that a redirect to the URL of the request would remove.
    func removeSecrets(of request: inout URLRequest) {
        // If the manifest has no URL, any other origin has the same effect.
        guard let base = base ?? URL(string: "https://manifest.invalid/") else { return }
        ConnectionConfiguration().removeSecrets(of: &request, madeFor: base)
    }

    /// Returns the first value of the request itself that is a secret and is not intended for the server of its URL.
    ///
    /// A value from the response that named the server is intended for that server, for example the fields of an upload
    /// form.
    ///
    /// - Parameter source: The request whose response has named the server.
    static func ownSecret(of request: RequestPlan, in scope: ItemScope, from source: String) -> NamedValue? {
        request.values.first { value in
            guard !value.isDefault else { return false }
            let references = value.value.templates.flatMap(\.allReferences)
            if !references.isEmpty, references.allSatisfy({ $0.root == source }) { return false }
            if references.contains(where: scope.values.plan.isMarked) { return true }
            return !value.secrets(in: scope).isEmpty
        }
    }
}
