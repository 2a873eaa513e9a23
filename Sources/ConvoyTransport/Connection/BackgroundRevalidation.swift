import ConvoySupport
import Foundation
import FoundationNetworking

/// Asks a server whether a stale response, which has been served meanwhile, is still good (RFC 5861, section 3). What comes
/// goes into the cache, and nowhere else. Redirects are followed, as each has its own part in the cache.
final class BackgroundRevalidation: URLConnectionDelegate {
    private init() {}

    static func begin(like connection: URLConnection, _ request: TransferRequest) {
        var configuration = connection.configuration
        configuration.collectsMetrics = false
        if connection.followedRedirects > 0, let first = configuration.continuation?.first ?? connection.firstRequest.url {
            // Another origin must not be shown the certificate that is for the first one's server.
            configuration.continuation = RedirectContinuation(first: first, followed: connection.followedRedirects)
        }
        let revalidation = URLConnection(
            request, configuration: configuration, delegate: BackgroundRevalidation(), thread: connection.thread)
        revalidation.revalidates = true
        // Not within the call that serves the response.
        connection.thread.perform { revalidation.start() }
    }

    func connection(_ connection: any Connection, didReceive response: ResponseHead) { stopUnlessStoring(connection) }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        stopUnlessStoring(connection)
    }

    /// Nobody wants a response that is not stored, and its body may have no end.
    private func stopUnlessStoring(_ connection: any Connection) {
        guard let connection = connection as? URLConnection, connection.exchange.response.cacheWriter?.isStoring != true
        else { return }
        connection.cancel()
    }

    func connectionDidFinish(_ connection: any Connection) {}
    func connection(_ connection: any Connection, didFailWith error: URLError) {}
    func connectionDidCancel(_ connection: any Connection) {}
}
