#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Requests as they are sent, and the keys by which they are shared.
extension ImageDownloader {
    /// A request as it will be sent, and the keys by which it is shared.
    struct Prepared {
        let request: URLRequest
        let sharedKey: SharedTransferKey?
        let cacheKey: ImageCacheKey?
        let form: ExactString
    }

    func prepared(_ image: ImageRequest) -> Prepared {
        var request = image.urlRequest
        if let url = request.url, let local = LocalImage(url) {
            // Without a key, a file is neither looked up nor examined. A long URL takes more memory than its image.
            let mayBeKept = (configuration.allowsFileURLs || !url.isFileURL) && url.absoluteString.utf8.count <= 64 << 10
            let key = mayBeKept ? ImageCacheKey(url, fields: local.identification, identity: nil, image) : nil
            return Prepared(request: request, sharedKey: nil, cacheKey: key, form: ExactString(image.form))
        }
        let own = request.allHTTPHeaderFields ?? [:]
        if let url = request.url, let common = try? manager.makeRequest(.get, url) {
            for (name, value) in common.allHTTPHeaderFields ?? [:] where request.value(forHTTPHeaderField: name) == nil {
                request.setValue(value, forHTTPHeaderField: name)
            }
        }
        if !own.keys.contains(where: { HTTPSyntax.isSameField($0, "Accept") }) {
            request.setValue(ImageDownloader.acceptedTypes, forHTTPHeaderField: "Accept")
        }
        let key = manager.sharedTransferKey(of: request)
        let form = image.form
        return Prepared(
            request: request, sharedKey: key,
            cacheKey: key.map { ImageCacheKey($0.url, fields: own, identity: $0.identity, image) },
            form: ExactString(form))
    }
}
#endif
