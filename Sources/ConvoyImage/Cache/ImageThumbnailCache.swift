#if Images
import ConvoyCache
import ConvoySecurity
import ConvoySupport
import Foundation

/// A cache of reduced images on disk, so that the next run of a program shows them without decoding the originals.
///
/// The cache contains images with a requested size that are not animated, after their processors, as long as the
/// lifetime that their server specified. Images that were loaded for a user, with credentials, cookies or a certificate,
/// are not stored. When the files exceed the capacity, the least recently used ones are removed.
///
/// All members can be used from any thread. One process at a time should use a directory.
public final class ImageThumbnailCache: Sendable {
    /// The directory with the files.
    public let directory: URL
    /// The maximum total size of the files, in bytes.
    public let capacity: Int

    private struct File {
        let name: String
        var size: Int
    }

    private struct Contents {
        /// The files, from least to most recently used.
        var files = LinkedLists<File>()
        var places: [String: Int] = [:]
        var usage = 0

        mutating func add(_ file: File) {
            places[file.name] = files.append(file)
            usage += file.size
        }

        mutating func remove(_ name: String) -> Bool {
            guard let place = places.removeValue(forKey: name), let file = files.remove(place) else { return false }
            usage -= file.size
            return true
        }
    }

    private let contents = Locked(Contents())

    /// Opens a cache, and creates its directory.
    ///
    /// - Parameters:
    ///   - directory: A directory that contains nothing else.
    ///   - capacity: The capacity in bytes.
    /// - Throws: `HTTPCacheError` if the directory cannot be created or read.
    public init(directory: URL, capacity: Int = 64 << 20) throws(HTTPCacheError) {
        self.directory = directory
        self.capacity = max(0, capacity)
        let keys: Set<URLResourceKey> = [.fileSizeKey, .contentModificationDateKey]
        try? FileManager.default.createDirectory(
            at: directory.deletingLastPathComponent(), withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(directory.path, isChosen: true)
        } catch {
            throw .cannotOpen(directory.path, reason: error.reason)
        }
        do {
            let files = try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: Array(keys))
            for url in files
            where url.pathExtension == Self.partExtension
                && UUID(uuidString: url.deletingPathExtension().lastPathComponent) != nil
            {
                try? FileManager.default.removeItem(at: url)
            }
            let known = files.compactMap { url -> (file: File, date: Date)? in
                guard url.pathExtension == Self.pathExtension, let values = try? url.resourceValues(forKeys: keys) else {
                    return nil
                }
                let file = File(name: url.deletingPathExtension().lastPathComponent, size: values.fileSize ?? 0)
                return (file, values.contentModificationDate ?? .distantPast)
            }
            contents.withLock { contents in
                for (file, _) in known.sorted(by: { $0.date < $1.date }) { contents.add(file) }
            }
        } catch {
            throw .cannotOpen(directory.path, reason: error.localizedDescription)
        }
        evict()
    }

    /// The total size of the files, in bytes.
    public var usage: Int { contents.withLock { $0.usage } }

    /// The number of images.
    public var count: Int { contents.withLock { $0.files.count } }

    /// Removes all images.
    public func removeAll() {
        let names = contents.withLock { contents in
            defer { contents = Contents() }
            return Array(contents.places.keys)
        }
        for name in names { removeFile(name) }
    }

    /// Removes the images for a URL, in all forms.
    ///
    /// - Returns: The number of images removed.
    @discardableResult
    public func removeImages(for url: URL) -> Int {
        guard let prefix = Self.hash(url.absoluteString) else { return 0 }
        let names = contents.withLock { contents in
            let names = contents.places.keys.filter { $0.hasPrefix(prefix) }
            return names.filter { contents.remove($0) }
        }
        for name in names { removeFile(name) }
        return names.count
    }

    // MARK: Files

    private static let pathExtension = "thumbnail"
    private static let partExtension = "part"
    private static let magic = Array("CONVOYT1".utf8)
    private static let headerSize = 32

    private static func hash(_ text: String) -> String? {
        MessageDigest.sha256(Data(text.utf8)).map { Data($0.prefix(16)).hexadecimalString }
    }

    /// Returns the name of the file for a key; nil if the image must not be stored.
    static func name(for key: ImageCacheKey) -> String? {
        guard let form = key.sharedForm, let address = hash(key.url.text), let hash = hash(form) else { return nil }
        return address + hash
    }

    private func file(_ name: String) -> URL {
        directory.appendingPathComponent(name).appendingPathExtension(Self.pathExtension)
    }

    private func removeFile(_ name: String) { try? FileManager.default.removeItem(at: file(name)) }

    func contains(_ name: String) -> Bool { contents.withLock { $0.places[name] != nil } }

    /// Reads an image and the time in seconds for which it may still be used. Called on a decoding thread.
    func image(_ name: String) -> (image: Image, lifetime: TimeInterval)? {
        let url = file(name)
        if let data = try? Data(contentsOf: url), let found = Self.decode(data), found.lifetime > 0 {
            // The date preserves the order of use for the next run.
            try? FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: url.path)
            contents.withLock { contents in
                if let place = contents.places[name] { contents.files.move(place) }
            }
            return found
        }
        remove(name)
        return nil
    }

    /// Writes an image. Called on a decoding thread.
    func insert(_ image: Image, _ name: String, lifetime: TimeInterval) {
        let data = Self.encode(image, lifetime: lifetime)
        guard data.count <= capacity else { return }
        // An incomplete file never has the name.
        let part = directory.appendingPathComponent(UUID().uuidString).appendingPathExtension(Self.partExtension)
        guard let descriptor = try? PrivateFile.create(part.path) else { return }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard (try? handle.write(contentsOf: data)) != nil, rename(part.path, file(name).path) == 0 else {
            try? FileManager.default.removeItem(at: part)
            return
        }
        contents.withLock { contents in
            _ = contents.remove(name)
            contents.add(File(name: name, size: data.count))
        }
        evict()
    }

    func remove(_ name: String) { if contents.withLock({ $0.remove(name) }) { removeFile(name) } }

    private func evict() {
        let names = contents.withLock { contents in
            var names: [String] = []
            while contents.usage > capacity, let oldest = contents.files.first(), let file = contents.files[oldest] {
                _ = contents.remove(file.name)
                names.append(file.name)
            }
            return names
        }
        for name in names { removeFile(name) }
    }

    private static func encode(_ image: Image, lifetime: TimeInterval) -> Data {
        var data = Data(capacity: headerSize + image.pixels.count)
        data.append(contentsOf: magic)
        let format = ImageFormat.allCases.firstIndex(of: image.format) ?? 0
        for number in [image.width, image.height, image.channels, format] { append(UInt64(number), 4, to: &data) }
        let expiry = Date().timeIntervalSince1970 + min(lifetime, 10 * 365 * 86_400)
        append(UInt64(max(0, expiry)), 8, to: &data)
        data.append(image.pixels)
        return data
    }

    private static func append(_ value: UInt64, _ count: Int, to data: inout Data) {
        for index in 0..<count { data.append(UInt8(truncatingIfNeeded: value >> (8 * UInt64(index)))) }
    }

    private static func decode(_ data: Data) -> (image: Image, lifetime: TimeInterval)? {
        guard data.count > headerSize, data.prefix(8).elementsEqual(magic) else { return nil }
        func number(_ offset: Int, _ count: Int) -> UInt64 {
            (0..<count).reduce(0) { $0 | UInt64(data[data.startIndex + offset + $1]) << (8 * UInt64($1)) }
        }
        let (width, height, channels, format) = (number(8, 4), number(12, 4), number(16, 4), Int(number(20, 4)))
        guard channels == 3 || channels == 4, ImageFormat.allCases.indices.contains(format),
            let image = try? Image(
                size: ImageSize(width: Int(width), height: Int(height)), hasAlpha: channels == 4,
                pixels: data.dropFirst(headerSize), format: ImageFormat.allCases[format])
        else { return nil }
        return (image, TimeInterval(number(24, 8)) - Date().timeIntervalSince1970)
    }
}
#endif
