#if Images
import CGdkPixbuf
import ConvoyCache
import ConvoyOperations
import ConvoySupport
import Foundation

/// The downloader that a program shares, and its cache on disk.
extension ImageDownloader {
    /// The downloader that the parts of a program share: 100 MB of images in memory, and an HTTP cache on disk, so that
    /// the program's next run gets its images without the network where their servers allow it.
    ///
    /// The cache is in `$XDG_CACHE_HOME/NAME/images`, or `~/.cache/NAME/images`, where `NAME` is that of the program's
    /// file. Where it cannot be used, responses are kept in memory, and ``standardCacheFailure`` says why. Temporary
    /// failures are retried, three times.
    public static let `default` = ImageDownloader()

    /// Why the standard HTTP cache is not on disk; nil if it is.
    public static var standardCacheFailure: HTTPCacheError? { standardCache.failure }

    /// The manager of ``default``.
    static let standardManager: HTTPRequestOperationManager = {
        let manager = HTTPRequestOperationManager()
        manager.updateSettings { settings in
            settings.cache = standardCache.cache
            settings.retryPolicy = RetryPolicy()
        }
        return manager
    }()

    private static let standardCache: (cache: HTTPCache, failure: HTTPCacheError?) = {
        do throws(HTTPCacheError) {
            return (try diskCache(), nil)
        } catch {
            return (HTTPCache(), error)
        }
    }()

    /// Opens the HTTP cache of a program's images, for a manager of its own.
    ///
    /// - Parameters:
    ///   - name: the name of the folder in the user's folder for caches; nil for the name of the program's file.
    ///   - diskCapacity: in bytes.
    /// - Throws: `HTTPCacheError`, if the folder cannot be made or used.
    public static func diskCache(
        named name: String? = nil, diskCapacity: Int64 = 256 << 20
    ) throws(HTTPCacheError) -> HTTPCache {
        let environment = ProcessInfo.processInfo.environment
        // By the XDG Base Directory Specification, a path that is not absolute counts for nothing.
        let base: URL
        if let path = environment["XDG_CACHE_HOME"], path.hasPrefix("/") {
            base = URL(fileURLWithPath: path, isDirectory: true)
        } else {
            base = FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".cache", isDirectory: true)
        }
        let wanted = PathText.components(of: name ?? ProcessInfo.processInfo.processName).last { !$0.isEmpty } ?? "."
        let folder = base.appendingPathComponent(wanted == "." || wanted == ".." ? "convoy" : wanted, isDirectory: true)
        do {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw .cannotOpen(folder.path, reason: error.localizedDescription)
        }
        return try HTTPCache(
            directory: folder.appendingPathComponent("images", isDirectory: true), diskCapacity: diskCapacity)
    }

    /// The value of `Accept`. Servers send WebP and AVIF only to clients that name them.
    static let acceptedTypes: String = {
        var types: [String] = []
        for (format, type) in [(ImageFormat.avif, "image/avif"), (.webp, "image/webp")] {
            guard let loader = gdk_pixbuf_loader_new_with_type(format.rawValue, nil) else { continue }
            gdk_pixbuf_loader_close(loader, nil)
            convoy_loader_unref(loader)
            types.append(type)
        }
        return (types + ["image/png", "image/*;q=0.8"]).joined(separator: ",")
    }()
}

/// Cancels a load whose task is cancelled, perhaps before it has begun.
final class AwaitedImage: Sendable {
    private enum State {
        case waiting
        case began(ImageDownloadReceipt)
        case cancelled
    }

    private let state = Locked(State.waiting)

    func began(_ receipt: ImageDownloadReceipt) {
        let isCancelled = state.withLock { state in
            if case .cancelled = state { return true }
            state = .began(receipt)
            return false
        }
        if isCancelled { receipt.cancel() }
    }

    func cancel() {
        let receipt = state.withLock { state -> ImageDownloadReceipt? in
            defer { state = .cancelled }
            if case .began(let receipt) = state { return receipt }
            return nil
        }
        receipt?.cancel()
    }
}
#endif
