import Convoy
import ConvoyObjectStorage
import ConvoySupport
import Foundation

/// `convoy s3 sync`: copies the new and changed files of a directory to a storage, or the other way.
///
/// A file is copied if it is missing from the target, or has another size or an older time there.
struct StorageSync {
    private let options: Options
    private let display: Display
    private let settings: StorageSettings
    private let directory: String
    private let location: StorageLocation
    private let filter: PathFilter
    private let isPreview: Bool

    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        let words = Array(options.arguments.dropFirst())
        guard words.count == 2 else { throw options.usage("s3 sync takes a SOURCE and a TARGET") }
        guard StorageLocation.isLocation(words[0]) != StorageLocation.isLocation(words[1]) else {
            throw options.usage("one of SOURCE and TARGET must be a directory, and the other s3://BUCKET/PREFIX")
        }
        let isUpload = StorageLocation.isLocation(words[1])
        var location = try StorageLocation(words[isUpload ? 1 : 0], options)
        if !location.isPrefix { location.key += "/" }
        let directory = words[isUpload ? 0 : 1]
        guard !directory.isEmpty else { throw options.usage("the name of the directory is empty") }
        let sync = StorageSync(
            options: options, display: display, settings: try StorageSettings(options, display), directory: directory,
            location: location, filter: PathFilter(options), isPreview: options.has("dry-run"))
        return isUpload ? try sync.upload() : try sync.download()
    }

    // MARK: Upload

    private func upload() throws(ToolError) -> ExitStatus {
        let tree = try localTree()
        let storage = try settings.storage(location.bucket)
        let objects = try self.objects(in: storage)
        for path in objects.keys { try tree.checkForm(of: path) }
        let transfers = try StorageTransfers(settings, options)
        let changed = tree.files.filter { path, file in
            guard let object = objects[path] else { return true }
            // Storages record whole seconds.
            let stored = object.lastModified?.timeIntervalSince1970 ?? 0
            return object.size != file.size || stored < file.modified.rounded(.down)
        }
        var attributes = StorageTransfers.Attributes()
        attributes.resumption = .resumeOrRestart
        attributes.keepsJournal = !options.has("no-journal")
        let (directory, location, made) = (directory, location, attributes)
        let status = try copy(changed.keys.sorted(), of: tree.files.count, "uploaded") { path in
            let target = location.appending(path)
            let file = PathText.join(directory, path)
            return {
                await StorageTransfers.step(target, file: file) {
                    try transfers.upload(file, to: target, made, in: storage)
                }
            }
        }
        guard options.has("delete"), canDelete(status) else { return status }
        let superfluous = objects.keys.filter { tree.files[$0] == nil && !tree.hasSkipped($0) }
        let keys = superfluous.sorted().map { location.appending($0).key }
        let remover = StorageRemover(settings, options, display)
        let kinds = try StorageCall.result(about: location) { await remover.remove(keys, from: storage) }
        return kinds.isEmpty ? status : ExitStatus(failures: kinds)
    }

    private func localTree() throws(ToolError) -> LocalTree {
        let tree = try LocalTree(directory, filter)
        for path in tree.skipped.sorted() where filter.accepts(path) {
            display.complain("\(Printable.line(PathText.join(directory, path))): not a regular file; skipped")
        }
        return tree
    }

    // MARK: Download

    private func download() throws(ToolError) -> ExitStatus {
        let storage = try settings.storage(location.bucket)
        let listed = try self.objects(in: storage)
        if !isPreview { try Directories.prepare(directory) }
        let exists = access(directory, F_OK) == 0
        let tree: LocalTree? = exists ? try localTree() : nil
        for path in listed.keys { try tree?.checkForm(of: path) }
        // An object must not replace a link or a device.
        let objects = listed.filter { path, _ in tree?.skipped.contains(path) != true }
        let transfers = try StorageTransfers(settings, options)
        let changed = objects.filter { path, object in
            guard let file = tree?.files[path] else { return true }
            // The time of a downloaded file has no fraction.
            let modified = (object.lastModified?.timeIntervalSince1970 ?? 0).rounded(.down)
            return object.size != file.size || file.modified < modified
        }
        let (directory, location) = (directory, location)
        let status = try copy(changed.keys.sorted(), of: objects.count, "downloaded") { path in
            let source = location.appending(path)
            let file = PathText.join(directory, path)
            return {
                await StorageTransfers.step(source, file: file) {
                    // A key must not name a file outside the directory.
                    guard RelativePath.normalized(path)?.utf8.elementsEqual(path.utf8) == true else {
                        throw ToolError.disk("the key cannot be the name of a file")
                    }
                    try await BlockingWork.run {
                        try Directories.checkIsInside(directory, path)
                        try Directories.prepare(PathText.directory(of: file))
                    }
                    return try await transfers.download(source, to: file, .replace, from: storage)
                }
            }
        }
        guard options.has("delete"), canDelete(status) else { return status }
        var kinds: [FailureKind] = []
        let printer = StoragePrinter(display: display, printsJSON: options.has("json"))
        for path in (tree?.files.keys.sorted() ?? []) where objects[path] == nil {
            let file = PathText.join(directory, path)
            guard !isPreview else {
                display.say("would remove \(Printable.line(file))")
                continue
            }
            let failure = unlink(file) == 0 ? nil : ToolError.disk("cannot remove the file: \(SystemError().text)")
            if failure != nil { kinds.append(.disk) }
            printer.print(removed: file, error: failure)
        }
        return kinds.isEmpty ? status : ExitStatus(failures: kinds)
    }

    // MARK: Both

    /// Returns the selected objects by their keys below the prefix. Excludes the markers of folders.
    private func objects(in storage: ObjectStorage) throws(ToolError) -> [String: StoredObject] {
        let (prefix, filter) = (location.key, filter)
        return try StorageCall.result(about: location) {
            var objects: [String: StoredObject] = [:]
            for try await page in storage.pages(prefix: prefix) {
                for object in page.objects {
                    // A character of the key can begin in the prefix: a slash and an accent.
                    let path = String(decoding: object.key.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
                    guard !path.isEmpty, path.utf8.last != UInt8(ascii: "/"), filter.accepts(path) else { continue }
                    guard objects.updateValue(object, forKey: path) == nil else {
                        throw LocalTree.clash("two objects have the name", path)
                    }
                }
            }
            return objects
        }
    }

    /// Copies the files with the given paths.
    private func copy(
        _ paths: [String], of count: Int, _ verb: String, _ preparation: (String) -> StorageFeed.Preparation
    ) throws(ToolError) -> ExitStatus {
        guard !isPreview else {
            for path in paths {
                let (file, object) = (PathText.join(directory, path), location.appending(path).text)
                let (source, target) = verb == "uploaded" ? (file, object) : (object, file)
                display.say("would copy \(Printable.line(source)) to \(Printable.line(target))")
            }
            return .success
        }
        guard !paths.isEmpty else {
            display.say("\(count) up to date")
            return settings.transfers.finish(.success, display)
        }
        let status = StorageCommand.run(paths.map(preparation), settings, options, display) {
            "\($0) \(verb), \(count - paths.count) up to date"
        }
        if case .interrupted = status { display.complain("to resume, run the same command again") }
        return status
    }

    /// Returns whether everything has been copied, so that superfluous files can be removed.
    private func canDelete(_ status: ExitStatus) -> Bool {
        if status == .success { return true }
        display.complain("nothing was removed, because not everything was copied")
        return false
    }
}
