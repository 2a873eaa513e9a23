import Convoy
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// `convoy put`: uploads files.
enum PutCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        guard options.arguments.count >= 2, let text = options.arguments.last else {
            throw options.usage(options.arguments.isEmpty ? "no FILE and no URL" : "a FILE and a URL are required")
        }
        let display = try Display(options, printsBodies: false)
        let url = try DownloadURL.parse(text)
        let plan = try UploadPlan(options, url)
        // This step comes last, because it may prompt for a password and a passphrase.
        let settings = try TransferSettings(options, for: url, display)
        if let warning = settings.trust.warning { display.complain(warning) }
        var transfers: [Transfer] = []
        for file in options.arguments.dropLast() {
            let transfer = try plan.transfer(of: file, text)
            var configuration = ConnectionConfiguration()
            if let rate = settings.speed.limitOfEach {
                configuration.sendRateLimits.append(RateLimit(bytesPerSecond: rate))
            }
            try settings.apply(to: transfer, configuration, number: transfers.count + 1)
            transfers.append(transfer)
        }
        defer { settings.trace.finish() }
        let run = TransferRun(settings, display: display, options: options)
        let status = settings.finish(run.run(TransferList(transfers)) { "\($0) uploaded" }, display)
        if case .interrupted = status { display.complain("to resume, run the same command again") }
        return status
    }
}

/// The upload options.
private struct UploadPlan {
    private let options: Options
    private let url: URL
    private let headers: Headers
    private let uploadProtocol: UploadProtocol
    private let parts: Int
    private let chunk: Int64?
    private let chunkChecksum: ChecksumAlgorithm?
    private let checksum: Checksum?
    private let resumption: UploadResumption
    private let metadata: [String: String]

    init(_ options: Options, _ url: URL) throws(ToolError) {
        self.options = options
        self.url = url
        headers = try Headers(options)
        uploadProtocol =
            options.has("tus") ? .tus : options.has("draft") ? .draft : options.has("plain") ? .plain : .automatic
        parts = try options.integer("parallel", in: 1...64) ?? 1
        let (chunk, checksumText) = (options.value("chunk"), options.value("checksum"))
        self.chunk = chunk.flatMap { SpeedOptions.rate($0) }
        guard chunk == nil || self.chunk != nil else { throw options.usage("--chunk takes a number of bytes: 500k, 8Mi") }
        if let checksumText, !checksumText.contains("="), let algorithm = ChecksumAlgorithm(name: checksumText) {
            chunkChecksum = algorithm
            checksum = nil
        } else if let checksumText {
            chunkChecksum = nil
            do throws(ChecksumError) {
                checksum = try Checksum(parsing: checksumText)
            } catch {
                throw options.usage("--checksum: \(Printable.line("\(error)"))")
            }
        } else {
            chunkChecksum = nil
            checksum = nil
        }
        resumption = try UploadOptions.resumption(options)
        metadata = try UploadOptions.metadata(options)
        // The protocol does not allow other names.
        let isName = { (name: String) in
            name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ",") }
        }
        if let name = metadata.keys.sorted().first(where: { !isName($0) }) {
            throw options.usage("--metadata: invalid name '\(Printable.line(name))': use ASCII without spaces and commas")
        }
        let files = options.arguments.dropLast()
        guard checksum == nil || files.count == 1 else {
            throw options.usage("--checksum with =HEX can be used with one FILE only")
        }
        guard files.count == 1 || url.path.hasSuffix("/") || url.absoluteString.hasSuffix("/") || options.has("tus") else {
            throw options.usage("several files require a URL that ends in /, or --tus")
        }
        guard Set(files.map { UserPath.url($0).standardizedFileURL.path }).count == files.count else {
            throw options.usage("a FILE is given twice")
        }
    }

    /// Returns the upload of a file.
    ///
    /// - Parameter text: The URL as it was given.
    func transfer(of path: String, _ text: String) throws(ToolError) -> Transfer {
        let file = UserPath.url(path, isDirectory: false)
        let name = PathText.name(of: path)
        guard !name.isEmpty else { throw options.usage("'\(Printable.line(path))' is a directory: put uploads files") }
        var target = url
        if url.absoluteString.hasSuffix("/"), uploadProtocol == .plain { target = url.appendingPathComponent(name) }
        let upload = UploadOperation(request: try headers.request(for: target), file: file)
        if url.absoluteString.hasSuffix("/") { upload.plainURL = url.appendingPathComponent(name).withoutUserInfo }
        upload.uploadProtocol = uploadProtocol
        upload.parallelPartCount = parts
        if let chunk { upload.chunkSize = .fixed(chunk) }
        upload.chunkChecksumAlgorithm = chunkChecksum
        upload.checksum = checksum
        upload.resumption = resumption
        upload.metadata = metadata
        upload.keepsJournal = !options.has("no-journal")
        if options.has("json") { upload.computedChecksumAlgorithms = [.sha256] }
        return Transfer(name: name, file: path, url: target, text: text, upload: upload)
    }
}
