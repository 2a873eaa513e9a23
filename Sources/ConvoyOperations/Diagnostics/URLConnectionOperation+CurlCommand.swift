import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

extension URLConnectionOperation {
    /// The request as a command of the `curl` tool that a POSIX shell runs as it stands: the method, the header, the body,
    /// the time limits, the way to the server, and the settings of TLS that `curl` has. A `credential` is given to a server
    /// that asks; the cookies of a `cookieStore` and the token of an `authenticator` are the present ones.
    ///
    /// Secrets are replaced by `***`, unless they are asked for: credentials; the values of `Authorization`, `Cookie`,
    /// `Proxy-Authorization`, of the fields that `sensitiveHeaders` marks and of those whose names tell it; the user
    /// name and password in the URL; the values of `sensitiveQueryItems` in the URL, and in a body that is a form or
    /// JSON. Other bodies are shown as they are. A body that is a stream is left out, and a comment says so, as it does
    /// for what `curl` has no option for. The command trusts no server that the operation does not trust: it has no `--insecure`
    /// where keys or certificates are pinned. Redirects are not followed.
    ///
    /// - Parameter includingSecrets: whether the command has the secrets, so that its request is the operation's.
    public final func curlCommand(includingSecrets: Bool = false) -> String {
        let (plain, values, credential, authenticator) = core.withLock {
            ($0.requestWithTimeout, $0.common.values, $0.credentialSource.own, $0.authenticator)
        }
        var request = (authenticator?.token.flatMap { try? authorized(plain, with: $0) } ?? plain).urlRequest
        if let field = values.cookies?.keeper.field(for: request) { request.setValue(field, forHTTPHeaderField: "Cookie") }
        var command = CurlCommand(
            request, configuration: values.connectionConfiguration, addsUserAgent: values.holder.addsUserAgent,
            totalTimeout: values.totalTimeout, credential: credential, includesSecrets: includingSecrets)
        return command.text()
    }
}

extension CookieKeeper {
    /// The `Cookie` field that a request gets; nil if it gets none, or has its own.
    fileprivate func field(for request: URLRequest) -> String? {
        guard request.httpShouldHandleCookies, request.value(forHTTPHeaderField: "Cookie") == nil,
            let target = request.url.flatMap({ HTTPAddress($0.absoluteString) }).flatMap({ CookieTarget($0) })
        else { return nil }
        let isSafe = RequestRules.isSafe(request.httpMethod ?? "GET")
        // What is no text cannot be shown in a command.
        return field(for: target, site: request.mainDocumentURL, isSafeMethod: isSafe)
            .flatMap { String(validating: $0, as: UTF8.self) }
    }
}
