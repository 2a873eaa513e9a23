import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

extension URLError {
    /// The domain of libcurl errors, which are the underlying errors (`NSUnderlyingErrorKey`) of a `URLError` from this
    /// library. The code is a `CURLcode`.
    public static let libcurlErrorDomain = "libcurl"

    /// A `userInfo` key of a `URLError` from this library. The value is `true` if the server has not processed the
    /// request, so that it can be sent again regardless of its method: either no byte was sent, or HTTP/2 guarantees it
    /// (RFC 9113, section 8.7). If the key is missing, the server may have processed the request.
    public static let nothingWasSentKey = "ConvoyNothingWasSent"

    /// A `userInfo` key in the error of a response that may be complete. The value is `true` if this can be determined
    /// only by another request, over HTTP/1.1.
    package static let isUnprovenKey = "ConvoyIsUnproven"

    /// Creates an error about a URL, with a description.
    ///
    /// The text contains no secrets: URLs in it are redacted. The URL in `userInfo` keeps its query, which programs
    /// need, but no user information in any form.
    package init(_ code: Code, url: URL?, _ description: String, underlying: (any Error)? = nil) {
        let description = Redaction.text(description)
        var userInfo: [String: Any] = [
            NSLocalizedDescriptionKey: description, NSLocalizedFailureReasonErrorKey: description,
        ]
        if let url, let shown = url.withoutAnyUserInfo { userInfo[NSURLErrorFailingURLErrorKey] = shown }
        if let underlying { userInfo[NSUnderlyingErrorKey] = underlying }
        self.init(code, describedBy: userInfo)
    }

    /// Returns the same error about a URL, unless it already has one.
    package func about(_ url: URL?) -> URLError {
        guard userInfo[NSURLErrorFailingURLErrorKey] == nil, let shown = url?.withoutAnyUserInfo else { return self }
        return adding(shown, for: NSURLErrorFailingURLErrorKey)
    }

    /// Returns the same error with its text redacted by this classifier instead of the standard one.
    package func hiding(_ secrets: SecretClassifier) -> URLError {
        guard secrets != .standard else { return self }
        return adding(secrets, for: ErrorDescription.secretsKey)
    }

    /// Returns the same error with a value in its `userInfo`.
    func adding(_ value: Any, for key: String) -> URLError {
        URLError(code, describedBy: userInfo.merging([key: value]) { $1 })
    }

    /// Creates an error whose description is a single line. (Foundation's own initializer lists all of `userInfo`.)
    package init(_ code: Code, describedBy userInfo: [String: Any]) {
        self.init(_nsError: DescribedError(domain: NSURLErrorDomain, code: code.rawValue, userInfo: userInfo))
    }

    /// Creates the error of a transfer from libcurl's result. The underlying error keeps libcurl's own text.
    init(curl code: CURLcode, systemError: Int, text: String, url: URL?) {
        let meaning = curl_easy_strerror(code).map { String(cString: $0) } ?? "libcurl error \(code.rawValue)"
        let description = text.isEmpty ? meaning : text
        let underlying = DescribedError(
            domain: Self.libcurlErrorDomain, code: Int(code.rawValue),
            userInfo: [NSLocalizedDescriptionKey: description])
        self.init(
            Self.code(for: code, systemError: Int32(truncatingIfNeeded: systemError)), url: url,
            Self.explanation(of: code, text) ?? description, underlying: underlying)
    }

    /// Returns an explanation that replaces libcurl's text if that text would be unclear to readers who do not know
    /// libcurl; otherwise nil.
    private static func explanation(of code: CURLcode, _ text: String) -> String? {
        switch code {
        // The scheme was checked before the request began, so the server sent a response without a status line
        // ("HTTP/0.9").
        case CURLE_UNSUPPORTED_PROTOCOL: "The server did not send a valid HTTP response."
        // If libcurl provides a specific message, that message states the reason.
        case CURLE_HTTP2 where text.isEmpty || text.hasPrefix("Error in the HTTP"): "The HTTP/2 connection failed."
        case CURLE_HTTP2_STREAM where text.isEmpty || text.hasPrefix("Stream error"):
            "The server closed the HTTP/2 stream before the response was complete."
        case CURLE_SEND_ERROR where text.hasPrefix("Connection died"):
            "Several connections were closed before the server responded."
        default: nil
        }
    }

    /// Returns the code that Foundation uses for a libcurl result or, if Foundation on Linux uses `unknown`, the code
    /// that it uses on Apple platforms.
    static func code(for code: CURLcode, systemError: Int32) -> Code {
        switch code {
        case CURLE_URL_MALFORMAT: .badURL
        case CURLE_UNSUPPORTED_PROTOCOL:
            // The scheme was checked before the request began, so the server does not speak HTTP.
            .badServerResponse
        case CURLE_COULDNT_RESOLVE_HOST: .cannotFindHost
        case CURLE_COULDNT_RESOLVE_PROXY, CURLE_PROXY: .cannotConnectToHost
        case CURLE_COULDNT_CONNECT:
            switch systemError {
            case ETIMEDOUT: .timedOut
            case ENETUNREACH, ENETDOWN: .notConnectedToInternet
            default: .cannotConnectToHost
            }
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE, CURLE_HTTP2_STREAM, CURLE_HTTP2:
            .networkConnectionLost
        case CURLE_WEIRD_SERVER_REPLY: .badServerResponse
        case CURLE_BAD_CONTENT_ENCODING: .cannotDecodeContentData
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_ENGINE_INITFAILED, CURLE_SSL_SHUTDOWN_FAILED:
            .secureConnectionFailed
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH,
            CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CRL_BADFILE:
            .serverCertificateUntrusted
        case CURLE_SSL_CERTPROBLEM: .clientCertificateRejected
        case CURLE_SSL_CLIENTCERT: .clientCertificateRequired
        case CURLE_TOO_MANY_REDIRECTS: .httpTooManyRedirects
        case CURLE_SEND_FAIL_REWIND: .requestBodyStreamExhausted
        case CURLE_FILESIZE_EXCEEDED: .dataLengthExceedsMaximum
        case CURLE_LOGIN_DENIED: .userAuthenticationRequired
        case CURLE_OUT_OF_MEMORY: .cannotLoadFromNetwork
        default: .unknown
        }
    }
}

extension URL {
    /// The URL without user name and password.
    package var withoutUserInfo: URL {
        let address = absoluteString
        return URLUserInfo.isPresent(in: address) ? URL(string: URLUserInfo.removed(from: address)) ?? self : self
    }

    /// The URL without any user name and password, even if an invalid URL has them in its path; nil if the rest is not
    /// a URL.
    fileprivate var withoutAnyUserInfo: URL? {
        let address = absoluteString, shown = URLUserInfo.removedFromAnySpelling(address)
        return shown.utf8.count == address.utf8.count ? self : URL(string: shown)
    }
}

extension URLError {
    /// The `userInfo` key for the reason why a server is not trusted. Its value is a `ServerTrustFailure`.
    public static let serverTrustFailureKey = "ConvoyServerTrustFailure"

    /// The `userInfo` key for the certificates of a server that is not trusted, as the server sent them. Its value is a
    /// `[Certificate]`.
    public static let serverCertificatesKey = "ConvoyServerCertificates"

    /// The reason why the server is not trusted; nil for other errors.
    ///
    /// The error code is `.serverCertificateHasBadDate` for an expired certificate, `.serverCertificateNotYetValid`,
    /// `.serverCertificateHasUnknownRoot`, or otherwise `.serverCertificateUntrusted`.
    public var serverTrustFailure: ServerTrustFailure? { userInfo[Self.serverTrustFailureKey] as? ServerTrustFailure }

    /// The certificates of a server that is not trusted, the leaf certificate first; nil for other errors.
    public var serverCertificates: [Certificate]? { userInfo[Self.serverCertificatesKey] as? [Certificate] }

    /// The reason why a server's Digest response authentication was rejected; nil for other errors.
    public var responseAuthenticationFailure: ResponseAuthenticationFailure? {
        userInfo[NSUnderlyingErrorKey] as? ResponseAuthenticationFailure
    }

    init(untrusted failure: ServerTrustFailure, presented: [Certificate], url: URL?, isProxy: Bool) {
        let code: Code =
            switch failure.reason {
            case .expired: .serverCertificateHasBadDate
            case .notYetValid: .serverCertificateNotYetValid
            case .unknownRoot: .serverCertificateHasUnknownRoot
            case .unusablePolicy: .secureConnectionFailed
            default: .serverCertificateUntrusted
            }
        let description = isProxy ? "The proxy is not trusted. \(failure.description)" : failure.description
        self = URLError(code, url: url, description, underlying: failure)
            .adding(failure, for: Self.serverTrustFailureKey).adding(presented, for: Self.serverCertificatesKey)
    }
}

extension URLError {
    /// The `userInfo` key for an address that must not be connected to. Its value is an `AddressRefusal`.
    public static let addressRefusalKey = "ConvoyAddressRefusal"

    /// The address that the configuration's `addressGuard` rejected; nil for other errors.
    ///
    /// The error code is `.dataNotAllowed`. Nothing was sent, and no retry policy retries the request.
    public var addressRefusal: AddressRefusal? { userInfo[Self.addressRefusalKey] as? AddressRefusal }

    /// Creates the error for a rejected address. Does not set `nothingWasSentKey`, because such a request would be sent
    /// again regardless of the retry policy.
    init(refused refusal: AddressRefusal, url: URL?) {
        self = URLError(.dataNotAllowed, url: url, refusal.description, underlying: refusal)
            .adding(refusal, for: Self.addressRefusalKey)
    }
}
