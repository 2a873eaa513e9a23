import Convoy
import ConvoySupport
import Foundation

/// The options that concern the selection, location and verification of downloaded files.
struct FileOptions {
    /// The file of `--output`, or nil.
    let output: String?
    let directory: String
    let usesServerNames: Bool
    let existing: ExistingFilePolicy
    /// Whether a number is added to a name that is already in use.
    let numbersFiles: Bool
    /// The bytes to download, or nil for all.
    let range: ByteRange?
    /// Whether only the heads of responses are printed.
    let printsHead: Bool
    /// Whether the head is printed before the body.
    let includesHead: Bool
    /// Whether the body of an error response is kept.
    let keepsErrors: Bool
    private let checksum: Checksum?
    private let checksums: ChecksumFile?
    private let checksumFile: String?
    private let mirrors: [URL]
    private let segments: Int

    /// Whether the single file is written to standard output.
    var isStandardOutput: Bool { output.map(SpecialFile.isStandardOutput) ?? false }

    /// Whether the single file is written to standard output, a device or a pipe.
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
        numbersFiles = options.has("number")
        printsHead = options.has("head")
        includesHead = options.has("include")
        keepsErrors = options.has("content-on-error")
        range = try options.value("range").map { text throws(ToolError) in
            guard let range = ByteRange(text) else {
                throw options.usage("--range takes the first and the last byte: 0-499, 500- or -500")
            }
            return range
        }
        segments = try options.integer("segments", in: 1...64) ?? 1
        mirrors = try options.all("mirror").map { text throws(ToolError) in try options.url(text) }
        checksum = try options.value("checksum").map { text throws(ToolError) in try DownloadList.checksum(text) }
        checksumFile = options.value("checksum-file")
        if output?.isEmpty == true { throw options.usage("--output needs a file, or - for standard output") }
        if printsHead,
            output != nil || range != nil
        {
            throw options.usage("--head cannot be combined with --output or --range")
        }
        if range != nil, usesServerNames || options.has("timestamping") || options.has("segments") {
            throw options.usage("--range cannot be combined with --remote-header-name, --timestamping or --segments")
        }
        if let advice = options.value("directory").flatMap(OtherPrograms.advice), options.wroteLetter("directory") {
            throw options.usage(advice)
        }
        if directory.isEmpty { throw options.usage("--directory needs a directory") }
        if checksumFile != nil, usesServerNames {
            throw options.usage(
                "--checksum-file cannot be combined with --remote-header-name: it requires the file names in advance"
            )
        }
        checksums = try checksumFile.map { path throws(ToolError) in
            let name = Printable.line(path)
            let data = try InputFile.contents(
                of: path, called: "--checksum-file \(name)", limit: ChecksumFile.maximumLength)
            do throws(ChecksumError) {
                return try ChecksumFile(parsing: data)
            } catch {
                throw .usage("\(name): \(Printable.line(error.description))")
            }
        }
        if includesHead, !isStreamed { throw options.usage("--include requires --output -") }
    }

    /// Returns whether a checksum is known for a file. The checksum is also compared with an existing file.
    func hasChecksum(_ item: DownloadItem) -> Bool {
        item.checksum != nil || checksums != nil || item.metalink?.checksums.isEmpty == false
    }

    /// Returns the files of the command line and of the lists. Options that apply to a single file are set on it.
    func source(_ options: Options) throws(ToolError) -> DownloadSource {
        let source = try DownloadSource(options)
        let single = [("output", output != nil), ("checksum", checksum != nil), ("mirror", !mirrors.isEmpty)]
        guard let name = single.first(where: \.1)?.0 else { return source }
        var items = try source.load()
        guard items.count == 1 else {
            throw options.usage("--\(name) can be used with one URL only, not \(items.count)")
        }
        items[0].urls += mirrors
        if let checksum { items[0].checksum = checksum }
        if let output { items[0].name = output }
        source.replace(by: items)
        return source
    }

    /// Returns the path of a file given by `--output`. It may lead outside the directory, because the user chose it.
    func outputPath(_ name: String) -> String { name.hasPrefix("/") ? name : PathText.join(directory, name) }

    /// Configures a download.
    ///
    /// - Parameter path: The path of the file, if it is known.
    func apply(to download: DownloadOperation, of item: DownloadItem, path: String?) throws(ToolError) {
        download.existingFilePolicy = existing
        download.acceptsUnrelatedContent = existing == .replace
        download.segmentCount = item.segments ?? segments
        if let file = item.metalink { download.apply(file) }
        if let checksum = item.checksum { download.checksum = checksum }
        let mirrors = item.urls.dropFirst().map(\.withoutUserInfo)
        if !mirrors.isEmpty { download.mirrors = mirrors }
        guard let path, let checksum = try listedChecksum(of: path) else { return }
        if !download.checksums.contains(checksum) { download.checksums.append(checksum) }
    }

    /// Checks that the checksum file lists a download. The download may later be renamed if its name is in use.
    func checkChecksum(of item: DownloadItem) throws(ToolError) {
        guard checksums != nil else { return }
        _ = try listedChecksum(of: item.name ?? FileNames.name(for: item.urls[0]))
    }

    private func listedChecksum(of path: String) throws(ToolError) -> Checksum? {
        guard let checksums, let checksumFile else { return nil }
        let name = PathText.name(of: path)
        guard let checksum = checksums.checksum(forFileNamed: path) ?? checksums.checksum(forFileNamed: name) else {
            throw .usage("\(Printable.line(checksumFile)) has no checksum for \(Printable.line(name))")
        }
        return checksum
    }
}

/// A part of a file, by byte positions (RFC 9110, section 14.1.2).
struct ByteRange: Sendable, Equatable {
    static let refusal = "the server does not support ranges: it sent the whole file"

    let first: Int64?
    let last: Int64?

    /// Parses `0-499`, `500-` or `-500`, and returns nil for any other string.
    init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.allSatisfy { (48...57).contains($0) } }) else { return nil }
        first = Int64(parts[0])
        last = Int64(parts[1])
        guard (first != nil) == !parts[0].isEmpty, (last != nil) == !parts[1].isEmpty, first != nil || last != nil else {
            return nil
        }
        if let first, let last, last < first { return nil }
        if first == nil, last == 0 { return nil }
    }

    /// The value of the `Range` field.
    var field: String { "bytes=\(first.map { String($0) } ?? "")-\(last.map { String($0) } ?? "")" }

    /// Checks that a response contains this part.
    func check(_ head: ResponseHead) throws(ToolError) {
        guard head.statusCode == 206 else { throw ToolError(text: Self.refusal, status: .failed(.status)) }
        guard let part = ContentRange(head["Content-Range"]) else { throw Self.otherPart }
        let end = part.total.map { $0 - 1 }
        let isWanted =
            if let first {
                part.first == first && part.last == min(last ?? .max, end ?? last ?? part.last)
            } else {
                end.map { part.last == $0 && part.first == max(0, $0 + 1 - (last ?? 0)) } ?? true
            }
        guard isWanted else { throw Self.otherPart }
    }

    private static var otherPart: ToolError {
        ToolError(text: "the server sent a different range than requested", status: .failed(.checksum))
    }
}
