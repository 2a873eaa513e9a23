import ConvoySupport
import Foundation

/// The handler's answer to a challenge, which counts once. A handler that lets go of it without an answer leaves the
/// challenge to the default.
final class AuthenticationAnswer: Sendable {
    private let then: Locked<(@Sendable (AuthenticationDisposition) -> Void)?>

    init(_ then: @escaping @Sendable (AuthenticationDisposition) -> Void) { self.then = Locked(then) }

    deinit { give(.performDefaultHandling) }

    func give(_ disposition: AuthenticationDisposition) {
        let then = self.then.withLock { $0.take() }
        then?(disposition)
    }
}
