import CCurl
import Foundation

extension URLConnection {
    /// The error of a SOCKS proxy's answer; nil if libcurl's own result says all.
    func proxyError(_ handle: EasyHandle) -> URLError? {
        switch UInt32(truncatingIfNeeded: handle.long(CURLINFO_PROXY_ERROR)) {
        case CURLPX_USER_REJECTED.rawValue, CURLPX_NO_AUTH.rawValue, CURLPX_IDENTD.rawValue, CURLPX_IDENTD_DIFFER.rawValue:
            failure(.userAuthenticationRequired, "The proxy does not serve this user: \(handle.failureText)")
        case CURLPX_RESOLVE_HOST.rawValue: failure(.cannotFindHost, handle.failureText)
        default: nil
        }
    }
}
