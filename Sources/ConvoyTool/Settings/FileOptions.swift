import Convoy
import ConvoySupport
import Foundation

/// The options for what files are downloaded, where they go, and what they must be.
struct FileOptions {
    /// The file of `--output`; nil without one.
    let output: String?
    let directory: String
    let usesServerNames: Bool
    let existing: ExistingFilePolicy
    private let checksum: Checksum?
    private let checksums: ChecksumFile?
    private let checksumFile: String?
    private let mirrors: [URL]
    private let segments: Int

    /// Whether the only file is printed.
    var isStandardOutput: Bool { output.map(SpecialFile.isStandardOutput) ?? false }

    /// Whether the only file is written to a device or a pipe, or printed.
    var isStreamed: Bool {
        guard let output else { return false }
        return isStandardOutput || SpecialFile.isStream(outputPath(output))
    }

    init(_ options: Options) throws(ToolError) {
        output = options.value("output")
        directory = options.value("directory") ?? "."
        usesServerNames = options.has("remote-header-name")
        existing =
            options.has("force")
            ? .replace
            : options.has("continue")
                ? .resume : options.has("no-clobber") ? .skip : options.has("timestamping") ? .revalidate : .fail
        segments = try options.integer("segments", in: 1...64) ?? 1
        mirrors = try options.all("mirror").map { text throws(ToolError) in try DownloadURL.parse(text) }
        checksum = try options.value("checksum").map { text throws(ToolError) in try DownloadList.checksum(text) }
        checksumFile = options.value("checksum-file")
        if output?.isEmpty == true { throw options.usage("--output needs a file, or - for standard output") }
        if directory.isEmpty { throw options.usage("--directory needs a directory") }
        if checksumFile != nil, usesServerNames {
            throw options.usage("--checksum-file needs the names of the files before they are there")
        }
        checksums = try checksumFile.map { path throws(ToolError) in
            let name = Printable.line(path)
            let data = try InputFile.contents(
                of: path, called: "--checksum-file \(name)", limit: ChecksumFile.maximumLength)
            do throws(ChecksumFileError) {
                return try ChecksumFile(parsing: data)
            } catch {
                throw .usage("\(name): \(Printable.line(error.description))")
            }
        }
    }

    /// Whether a file has a checksum, with which also one that is there is compared.
    func hasChecksum(_ item: DownloadItem) -> Bool {
        item.checksum != nil || checksums != nil || item.metalink?.checksums.isEmpty == false
    }

    /// The files of the command line and of the lists, with what the options say of them.
    func items(_ options: Options) throws(ToolError) -> [DownloadItem] {
        var items = try options.arguments.map { text throws(ToolError) in DownloadItem(try DownloadURL.parse(text)) }
        let lists = options.all("input-file")
        guard lists.filter({ $0 == "-" }).count < 2 else { throw options.usage("standard input can be read once") }
        for path in lists { items += try DownloadList.items(at: path) }
        guard !items.isEmpty || !lists.isEmpty else { throw options.usage("no URL") }
        let isOne = items.count == 1
        for (name, isGiven) in [("output", output != nil), ("checksum", checksum != nil), ("mirror", !mirrors.isEmpty)]
        where isGiven && !isOne {
            throw options.usage("--\(name) is for one URL, and there are \(items.count)")
        }
        if isOne {
            items[0].urls += mirrors
            if let checksum { items[0].checksum = checksum }
            if let output { items[0].name = output }
        }
        return items
    }

    /// Where a file of `--output` goes, which is the user's own path.
    func outputPath(_ name: String) -> String { name.hasPrefix("/") ? name : PathText.join(directory, name) }

    /// Sets a download up.
    ///
    /// - Parameter path: that of the file, if it is known.
    func apply(to download: DownloadOperation, of item: DownloadItem, path: String?) throws(ToolError) {
        download.existingFilePolicy = existing
        download.segmentCount = item.segments ?? segments
        if let file = item.metalink { download.apply(file) }
        if let checksum = item.checksum { download.checksum = checksum }
        let mirrors = item.urls.dropFirst().map(\.withoutUserInfo)
        if !mirrors.isEmpty { download.mirrors = mirrors }
        guard let checksums, let checksumFile, let path else { return }
        let name = PathText.name(of: path)
        guard let checksum = checksums.checksum(forFileNamed: path) ?? checksums.checksum(forFileNamed: name) else {
            throw .usage("\(Printable.line(checksumFile)) has no checksum of \(Printable.line(name))")
        }
        if !download.checksums.contains(checksum) { download.checksums.append(checksum) }
    }
}
