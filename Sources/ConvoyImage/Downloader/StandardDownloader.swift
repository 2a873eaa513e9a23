#if Images
import CGdkPixbuf
import ConvoyCache
import ConvoyOperations
import ConvoySupport
import Foundation

/// The downloader that all parts of a program share, and its disk cache.
extension ImageDownloader {
    /// The shared downloader. It keeps up to 100 MB of images in memory, and an HTTP cache on disk, so that the next
    /// run of the program loads its images without the network if their servers allow that.
    ///
    /// The cache is in `$XDG_CACHE_HOME/NAME/images`, or `~/.cache/NAME/images`, where `NAME` is the file name of the
    /// executable. If it cannot be used, responses are cached in memory, and ``standardCacheFailure`` contains the
    /// reason. Temporary failures are retried up to three times.
    public static let `default` = ImageDownloader()

    /// The reason why the standard HTTP cache is not on disk; nil if the cache is on disk.
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

    /// Opens the HTTP cache for a program's images, for use with a custom manager.
    ///
    /// - Parameters:
    ///   - name: The name of the folder within the user's cache folder; nil for the file name of the executable.
    ///   - diskCapacity: The capacity in bytes.
    /// - Throws: `HTTPCacheError` if the folder cannot be created or used.
    public static func diskCache(
        named name: String? = nil, diskCapacity: Int64 = 256 << 20
    ) throws(HTTPCacheError) -> HTTPCache {
        let environment = ProcessInfo.processInfo.environment
        // The XDG Base Directory Specification requires ignoring relative paths.
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

    /// The value of `Accept`. Servers send WebP and AVIF only to clients that list these types.
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

/// A load that is cancelled when its task is cancelled, even if it has not begun.
final class AwaitedImage: Sendable {
    private enum Stage {
        case waiting
        case began(ImageDownloadReceipt)
        case cancelled
    }

    private let stage = Locked(Stage.waiting)

    func began(_ receipt: ImageDownloadReceipt) {
        let isCancelled = stage.withLock { stage in
            if case .cancelled = stage { return true }
            stage = .began(receipt)
            return false
        }
        if isCancelled { receipt.cancel() }
    }

    func cancel() {
        let receipt = stage.withLock { stage -> ImageDownloadReceipt? in
            defer { stage = .cancelled }
            if case .began(let receipt) = stage { return receipt }
            return nil
        }
        receipt?.cancel()
    }
}
#endif
