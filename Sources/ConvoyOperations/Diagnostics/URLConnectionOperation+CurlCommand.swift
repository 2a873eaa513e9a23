import ConvoyTransport
import Foundation

extension URLConnectionOperation {
    /// The request as a command of the `curl` tool that a POSIX shell runs as it stands: the method, the header, the body,
    /// the time limits, and the settings of TLS that `curl` has.
    ///
    /// Secrets are replaced by `***`, unless they are asked for: the values of `Authorization`, `Cookie`,
    /// `Proxy-Authorization`, of the fields that `sensitiveHeaders` marks and of those whose names tell it; the user
    /// name and password in the URL; the values of `sensitiveQueryItems` in the URL, and in a body that is a form or
    /// JSON. Other bodies are shown as they are. A body that is a stream is left out, and a comment says so, as it does
    /// for what `curl` has no option for. Redirects are not followed.
    ///
    /// - Parameter includingSecrets: whether the command has the secrets, so that its request is the operation's.
    public final func curlCommand(includingSecrets: Bool = false) -> String {
        let (request, values) = core.withLock { ($0.requestWithTimeout, $0.common.values) }
        var command = CurlCommand(
            request.urlRequest, configuration: values.configuration, addsUserAgent: values.addsUserAgent,
            totalTimeout: values.totalTimeout, includesSecrets: includingSecrets)
        return command.text()
    }
}
