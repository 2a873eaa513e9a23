import ConvoyObjectStorage
import ConvoySupport
import Foundation

/// `convoy s3 remove`: removes objects.
enum StorageRemove {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        let isRecursive = options.has("recursive")
        let locations = try options.arguments.dropFirst().map { text throws(ToolError) in
            var location = try StorageLocation(text, options)
            // Otherwise photo would also be a prefix of photos.
            if isRecursive, !location.isPrefix { location.key += "/" }
            guard isRecursive || !location.isPrefix else {
                throw options.usage("'\(Printable.line(location.text))' names no object; --recursive removes a prefix")
            }
            return location
        }
        guard !locations.isEmpty else { throw options.usage("no object given") }
        let settings = try StorageSettings(options, display)
        let remover = StorageRemover(settings, options, display)
        var kinds: [FailureKind] = []
        for location in locations {
            let storage = try settings.storage(location.bucket)
            kinds += try StorageCall.result(about: location) {
                guard isRecursive else { return await remover.remove([location.key], from: storage) }
                var kinds: [FailureKind] = []
                for try await page in storage.pages(prefix: location.key) {
                    kinds += await remover.remove(page.objects.map(\.key), from: storage)
                }
                return kinds
            }
        }
        return settings.transfers.finish(ExitStatus(failures: kinds), display)
    }
}

/// Removes objects, several of them concurrently, and prints each.
struct StorageRemover: Sendable {
    private let printer: StoragePrinter
    private let jobs: Int
    private let isPreview: Bool

    init(_ settings: StorageSettings, _ options: Options, _ display: Display) {
        printer = StoragePrinter(display: display, printsJSON: options.has("json"))
        jobs = settings.transfers.speed.jobs
        isPreview = options.has("dry-run")
    }

    /// Removes objects. Returns the kinds of the failures.
    func remove(_ keys: [String], from storage: ObjectStorage) async -> [FailureKind] {
        let bucket = storage.configuration.bucket
        let text: @Sendable (String) -> String = { key in StorageLocation(bucket: bucket, key: key).text }
        guard !isPreview else {
            for key in keys { printer.display.say("would remove \(Printable.line(text(key)))") }
            return []
        }
        return await withTaskGroup(of: FailureKind?.self) { group in
            var rest = keys[...]
            var kinds: [FailureKind] = []
            func add() {
                guard let key = rest.popFirst() else { return }
                group.addTask {
                    var failure: ToolError?
                    do { try await storage.delete(key) } catch { failure = StorageCall.toolError(error) }
                    printer.print(removed: text(key), error: failure)
                    return failure.map { FailureKind($0, statusCode: nil) }
                }
            }
            for _ in 0..<jobs { add() }
            while let kind = await group.next() {
                if let kind { kinds.append(kind) }
                add()
            }
            return kinds
        }
    }
}
