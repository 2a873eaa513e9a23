import Foundation
import FoundationNetworking

extension DownloadOperation {
    /// The request as it is sent: it asks for a body without a content encoding, unless it has an `Accept-Encoding` of its
    /// own.
    package static func askingForIdentity(_ request: URLRequest) -> URLRequest {
        guard request.value(forHTTPHeaderField: "Accept-Encoding") == nil else { return request }
        var request = request
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        return request
    }

    /// Whether a body that comes encoded nevertheless is decoded: not where the user has asked for an encoding, and not
    /// the archive that many servers send as its encoded contents.
    package static func decodesBody(of request: URLRequest) -> Bool {
        let compressed = ["gz", "tgz", "taz", "svgz", "z", "br", "zst", "tzst", "deb"]
        return request.value(forHTTPHeaderField: "Accept-Encoding") == nil
            && !compressed.contains(request.url?.pathExtension.lowercased() ?? "")
    }
}
