#if Images
import ConvoyCache
import ConvoyOperations
import ConvoySerialization
import Foundation
import FoundationNetworking

/// The images and bodies that stay in caches.
extension ImageDownloader {
    /// Whether the manager may authenticate requests while they are sent, so that their keys do not name the user.
    var mayAuthenticate: Bool {
        manager.credential != nil || manager.authenticator != nil
            || manager.shouldUseCredentialStorage && !manager.credentialStore.isEmpty
    }

    func keepThumbnail(_ image: Image, _ variant: ImageVariant, _ response: HTTPURLResponse?) {
        guard let thumbnails, !mayAuthenticate, let name = variant.cacheKey.flatMap(ImageThumbnailCache.name(for:)) else {
            return
        }
        // Otherwise, an older thumbnail would be used.
        guard image.animation == nil, let response, case .seconds(let lifetime) = ResponseFreshness(response), lifetime > 0
        else { return thumbnails.remove(name) }
        thumbnails.insert(image, name, lifetime: lifetime)
    }

    /// Removes a body that is not an image from the HTTP cache.
    func forgetBody(of job: ImageJob, _ response: HTTPURLResponse?, after error: any Error) {
        let error = error as NSError
        guard error.domain == URLResponseSerializationErrorDomain, error.code == NSURLErrorCannotDecodeContentData,
            let cache = manager.cache
        else { return }
        for url in Set([job.request.url, response?.url].compactMap(\.self)) { cache.remove(for: url) }
    }

    func keep(_ image: Image, _ variant: ImageVariant, _ response: HTTPURLResponse?) {
        guard let cache, let key = variant.cacheKey, !variant.isCancelled.load(ordering: .relaxed) else { return }
        let tag = jobs.withLock { _ in variant.cacheTag }
        switch response.map({ ResponseFreshness($0) }) ?? .unstated {
        case .none: break
        case .seconds(let lifetime): cache.insert(image, for: key, tag: tag, lifetime: lifetime)
        case .unstated: cache.insert(image, for: key, tag: tag, lifetime: nil)
        }
    }
}
#endif
