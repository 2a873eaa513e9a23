import CCurl
import Foundation

/// The libraries used for transfers, as loaded in this process.
package enum TransportLibraries {
    /// The version of the loaded libcurl, as `0x07_58_01` for 7.88.1.
    static let libcurl: UInt32 = convoy_version()?.pointee.version_num ?? 0

    /// The names and versions in one line, for example "libcurl 7.88.1, OpenSSL 3.0.17, nghttp2 1.52.0".
    package static var text: String {
        guard let info = convoy_version()?.pointee else { return "libcurl" }
        let tls = info.ssl_version.map { String(cString: $0).replacing("/", with: " ") }
        let http2 = info.nghttp2_version.map { "nghttp2 " + String(cString: $0) }
        return [info.version.map { "libcurl " + String(cString: $0) }, tls, http2].compactMap(\.self).joined(separator: ", ")
    }
}
