import Convoy
import ConvoyObjectStorage
import ConvoySupport
import Foundation

/// `convoy s3`: downloads, uploads, lists and removes the objects of an S3-compatible storage.
enum StorageCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let action = try StorageAction(options)
        switch action {
        case .get: return try get(options)
        case .put: return try put(options)
        case .list: return try StorageList.run(options, try Display(options, printsBodies: false))
        case .remove: return try StorageRemove.run(options, try Display(options, printsBodies: false))
        case .sync: return try StorageSync.run(options, try Display(options, printsBodies: false))
        }
    }

    // MARK: get

    private static func get(_ options: Options) throws(ToolError) -> ExitStatus {
        let files = try FileOptions(options)
        let display = try Display(options, printsBodies: files.isStandardOutput)
        let locations = try options.arguments.dropFirst().map { text throws(ToolError) in
            let location = try StorageLocation(text, options)
            guard !location.isPrefix else {
                throw options.usage("'\(Printable.line(location.text))' names no object; s3 sync copies a prefix")
            }
            return location
        }
        guard !locations.isEmpty else { throw options.usage("no object given") }
        if files.output != nil, locations.count > 1 { throw options.usage("--output can be used with one object only") }
        let condition = StorageTransfers.Condition(
            matching: options.value("if-match"), notMatching: options.value("if-none-match"))
        guard condition.matching == nil || locations.count == 1 else {
            throw options.usage("--if-match can be used with one object only")
        }
        let settings = try StorageSettings(options, display)
        let transfers = try StorageTransfers(settings, options)
        var places = FileNameAllocator()
        let output = files.output.map(files.outputPath)
        let isStreamed = files.isStreamed
        let preparations = try locations.map { location throws(ToolError) -> StorageFeed.Preparation in
            let storage = try settings.storage(location.bucket)
            if isStreamed {
                let path = files.isStandardOutput ? nil : output
                return {
                    await StorageTransfers.step(location) {
                        try await transfers.stream(location, to: path, condition, from: storage)
                    }
                }
            }
            let wanted = FileNames.sanitised(location.name)
            let name = places.take(wanted)
            let path = output ?? PathText.join(files.directory, name)
            if output == nil, name != wanted {
                display.say("\(Printable.line(location.text)) is saved as \(Printable.line(path))")
            }
            let existing = files.existing
            return {
                await StorageTransfers.step(location, file: path) {
                    try await transfers.download(location, to: path, existing, condition, from: storage)
                }
            }
        }
        if !isStreamed { try Directories.prepare(output.map { PathText.directory(of: $0) } ?? files.directory) }
        return run(preparations, settings, options, display) { "\($0) downloaded" }
    }

    // MARK: put

    private static func put(_ options: Options) throws(ToolError) -> ExitStatus {
        let display = try Display(options, printsBodies: false)
        let words = options.arguments.dropFirst()
        guard words.count >= 2, let text = words.last else {
            throw options.usage(words.isEmpty ? "no FILE and no OBJECT" : "a FILE and an OBJECT are required")
        }
        let location = try StorageLocation(text, options)
        let files = Array(words.dropLast())
        if let other = files.first(where: StorageLocation.isLocation) {
            throw options.usage("'\(Printable.line(other))' is not a file; s3 put uploads files")
        }
        guard files.count == 1 || location.isPrefix else {
            throw options.usage("several files require an OBJECT ending in /")
        }
        let attributes = try attributes(options, count: files.count)
        let settings = try StorageSettings(options, display)
        let transfers = try StorageTransfers(settings, options)
        let storage = try settings.storage(location.bucket)
        var keys: Set<String> = []
        let preparations = try files.map { path throws(ToolError) -> StorageFeed.Preparation in
            let name = PathText.name(of: path)
            guard !name.isEmpty else {
                throw options.usage("'\(Printable.line(path))' is a directory; s3 sync copies directories")
            }
            let target = location.isPrefix ? location.appending(name) : location
            guard keys.insert(target.key).inserted else {
                throw options.usage("two files would be stored as \(Printable.line(target.text))")
            }
            return {
                await StorageTransfers.step(target, file: path) {
                    try transfers.upload(path, to: target, attributes, in: storage)
                }
            }
        }
        let status = run(preparations, settings, options, display) { "\($0) uploaded" }
        if case .interrupted = status { display.complain("to resume, run the same command again") }
        return status
    }

    private static func attributes(_ options: Options, count: Int) throws(ToolError) -> StorageTransfers.Attributes {
        var attributes = StorageTransfers.Attributes()
        attributes.contentType = options.value("content-type")
        attributes.metadata = try UploadOptions.metadata(options)
        attributes.resumption = try UploadOptions.resumption(options)
        attributes.keepsJournal = !options.has("no-journal")
        if let tag = options.value("if-match") {
            guard count == 1 else { throw options.usage("--if-match can be used with one FILE only") }
            guard !options.has("if-none-match") else {
                throw options.usage("--if-match and --if-none-match cannot be combined")
            }
            attributes.condition = .hasEntityTag(tag)
        } else if let text = options.value("if-none-match") {
            guard text == "*" else { throw options.usage("with s3 put, --if-none-match takes *") }
            attributes.condition = .isMissing
        }
        return attributes
    }

    // MARK: Running

    /// Runs the transfers, and prints a summary.
    static func run(
        _ preparations: [StorageFeed.Preparation], _ settings: StorageSettings, _ options: Options, _ display: Display,
        summary: @escaping (Int) -> String
    ) -> ExitStatus {
        let transfers = settings.transfers
        if let warning = transfers.trust.warning { display.complain(warning) }
        defer { transfers.trace.finish() }
        let run = TransferRun(transfers, display: display, options: options)
        let feed = StorageFeed(preparations, jobs: transfers.speed.jobs)
        return transfers.finish(run.run(feed, summary: summary), display)
    }
}
