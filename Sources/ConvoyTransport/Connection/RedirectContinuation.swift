import Foundation

/// What a transfer has to know of the redirects that were followed before it, where it begins with the request that they
/// led to.
package struct RedirectContinuation: Sendable, Hashable {
    /// The URL of the first request, which may be of another origin than that of the transfer.
    package let first: URL
    /// How many redirects were followed.
    package let followed: Int

    package init(first: URL, followed: Int) {
        self.first = first
        self.followed = followed
    }
}
