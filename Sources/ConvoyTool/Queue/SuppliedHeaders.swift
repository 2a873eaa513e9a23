import Convoy
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// The header fields that a worker adds to stored requests. Secrets are sent only to the servers of `--secrets-for`;
/// other fields are added unless the request already has them.
struct SuppliedHeaders: Sendable {
    private var secrets: [(name: String, value: String)] = []
    private var others: [(name: String, value: String)] = []
    private let servers: SecretScope
    /// The URLs of `--secrets-for`.
    let urls: [URL]

    init(_ options: Options) throws(ToolError) {
        urls = try options.all("secrets-for").map { text throws(ToolError) in try DownloadURL.parse(text) }
        servers = SecretScope(urls.compactMap { Target($0) })
        for text in options.all("header") {
            do throws(ToolError) { try Headers.check(text) } catch { throw options.usage(error.text) }
            let (name, value) = Headers.parts(of: text)
            if Self.isSecret(name, value) { secrets.append((name, value)) } else { others.append((name, value)) }
        }
        if let agent = options.value("user-agent") { others.append(("User-Agent", agent)) }
        guard urls.isEmpty else { return }
        if options.has("user") { throw options.usage("--user requires --secrets-for URL: a queue has URLs of many servers") }
        if let name = secrets.first?.name {
            throw options.usage("\(Printable.line(name)) requires --secrets-for URL: a queue has URLs of many servers")
        }
    }

    /// Returns whether a field is a secret. Secrets are not stored, and are sent only to the servers of
    /// `--secrets-for`.
    static func isSecret(_ name: String, _ value: String) -> Bool { SecretClassifier.standard.shown(name, value) != value }

    func apply(to operation: HTTPRequestOperation) {
        let secrets = servers.mayReceiveSecrets(operation.request.url) ? secrets : []
        let others = others
        guard !secrets.isEmpty || !others.isEmpty else { return }
        let prepare = operation.prepare
        operation.prepare = { request in
            try prepare?(&request)
            for field in others where request.value(forHTTPHeaderField: field.name) == nil {
                request.setValue(field.value, forHTTPHeaderField: field.name)
            }
            for field in secrets { request.setValue(field.value, forHTTPHeaderField: field.name) }
        }
    }
}
