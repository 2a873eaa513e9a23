import Foundation

/// The targets (scheme, host and port) that may receive secrets. All code that adds, keeps or removes a secret uses a
/// scope to decide whether a target may receive it.
///
/// - The secrets of a manager belong to its base URL and its `authorizationOrigins` or, if it has no base URL, to all
///   targets (``init(base:origins:)``): its credential, the tokens of its authenticator, and the secret fields of its
///   serializer or session.
/// - The secrets in a request belong to the request's target (``init(of:)``), regardless of who added them. A redirect
///   to another target removes the fields, and a redirect back does not restore them. A refreshed token is sent only if
///   the field that it replaces was not removed.
/// - A client certificate belongs to the target of the first request.
/// - A credential belongs to the target of the first request, and to the same host over TLS (``includesUpgrade(to:)``).
/// - A part of an operation, for example a segment of a download, receives the secrets of the operation only if both
///   have the same target.
///
/// ``SecretClassifier`` decides which fields are secret.
package struct SecretScope: Sendable, Hashable {
    /// The targets in the scope; nil for all targets.
    private let targets: Set<Target>?

    /// The scope of secrets that may be sent to all targets.
    package static let everywhere = SecretScope(targets: nil)

    private init(targets: Set<Target>?) { self.targets = targets }

    package init(_ targets: some Sequence<Target>) { self.init(targets: Set(targets)) }

    /// Creates the scope of the secrets in a request to a target. The scope is empty for nil.
    package init(of target: Target?) { self.init([target].compactMap(\.self)) }

    /// Creates the scope of the secrets in a request to a URL. The scope is empty if the URL has no target.
    package init(of url: URL?) { self.init(of: url.flatMap { Target($0) }) }

    /// Creates the scope of a manager. URLs without a target are ignored.
    package init(base: URL?, origins: Set<URL>) {
        self.init(targets: base.map { base in Set((origins + [base]).compactMap { Target($0) }) })
    }

    /// Returns whether a target may receive the secrets.
    package func mayReceiveSecrets(_ target: @autoclosure () -> Target?) -> Bool {
        guard let targets else { return true }
        return target().map(targets.contains) ?? false
    }

    /// Returns whether the target of a URL may receive the secrets.
    package func mayReceiveSecrets(_ url: URL?) -> Bool { mayReceiveSecrets(url.flatMap { Target($0) }) }

    /// Returns whether a target is the same host over TLS as a target of the scope, both at the standard ports. The
    /// target differs, but the recipient is the same.
    package func includesUpgrade(to target: Target?) -> Bool {
        targets?.contains { !$0.isSecure && $0.port == 80 && $0.secured == target } ?? true
    }

    /// Returns the names of the fields that must not be sent to a URL: the secret ones, unless its target may receive
    /// secrets.
    package func withheld(
        _ names: some Sequence<String>, from url: URL?, _ secrets: SecretClassifier
    ) -> [String] {
        mayReceiveSecrets(url) ? [] : names.filter(secrets.contains)
    }
}
