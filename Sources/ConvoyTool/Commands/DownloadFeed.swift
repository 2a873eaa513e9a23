import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// The transfers of `convoy get`. Each is created as soon as it can run, so that a list of any length starts
/// immediately and its waiting entries use almost no memory.
final class DownloadFeed: TransferFeed {
    /// A deferred file, with its assigned destination.
    private struct Waiting: Sendable {
        let file: DownloadSource.Waiting
        let place: DownloadPlaces.Place
    }

    private(set) var settings: TransferSettings
    let hooks: TransferHooks
    private let options: Options
    private let display: Display
    private let files: FileOptions
    private let headers: Headers
    private let source: DownloadSource
    private let window: SharedTransferWindow<Waiting>
    private let makesDirectories: Bool
    private var places: DownloadPlaces
    private let serverNames = ServerNames()
    private var isAtEnd = false
    private var number = 0
    /// The directories that have been prepared for output.
    private var prepared: Set<String> = []
    /// The downloads whose partial files are named after their URLs.
    private var unnamed: [String: WeakTransfer] = [:]

    private struct WeakTransfer { weak var transfer: Transfer? }

    var total: Int? { source.count }

    /// Performs all checks that are possible before anything is sent.
    init(_ options: Options, _ files: FileOptions, _ display: Display) throws(ToolError) {
        self.options = options
        self.files = files
        self.display = display
        let speed = try SpeedOptions(options)
        headers = try Headers(options)
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        source = try files.source(options)
        makesDirectories = !options.has("dry-run")
        var places = DownloadPlaces(
            directory: files.directory, usesServerNames: files.usesServerNames, numbersFiles: files.numbersFiles)
        // The path of `--output` was given by the user and may lead anywhere.
        if let output = files.output {
            let path = files.outputPath(output)
            guard !path.hasSuffix("/"), !path.unicodeScalars.contains("\0") else {
                throw options.usage("--output takes a file; for a directory, use --directory")
            }
        }
        var login = LoginOptions(options)
        let (headers, isNamed) = (headers, files.output != nil)
        try source.check(plain: options.has("user") || options.has("checksum-file")) { item throws(ToolError) in
            if !isNamed { try places.reserve(item) }
            try login.adopt(item.urls[0], options)
            for url in item.urls { _ = try Login.taken(from: url) }
            if !item.headers.isEmpty { _ = try headers.adding(item.headers).request(for: item.urls[0]) }
            try files.checkChecksum(of: item)
            if files.isStreamed || files.range != nil || files.printsHead {
                guard item.checksum == nil, item.urls.count == 1, item.metalink == nil, !options.has("checksum-file") else {
                    throw options.usage(files.isStreamed ? Self.streamProblem : Self.partProblem)
                }
            }
        }
        // This step comes last, because it may prompt for a password and a passphrase.
        try login.ask(options)
        let trust = try TrustOptions(options)
        settings = TransferSettings(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: trust,
            trace: try TraceOptions(options, display, count: source.count ?? 2))
        if let warning = trust.warning { display.complain(warning) }
        let size = speed.jobs * 2 + 8
        // A host that may use all connections fills the window. Files are deferred only when its transfers wait to be
        // retried, so a list of one host is not read ahead.
        let sizePerHost = speed.jobsOfOneHost < speed.jobs ? speed.jobsOfOneHost * 2 + 4 : size
        let window = SharedTransferWindow(TransferWindow<Waiting>(size: size, sizePerHost: sizePerHost))
        self.window = window
        hooks = TransferHooks(
            setBack: { transfer in
                if transfer.stopsCounting() { window.change { $0.setBack() } }
            },
            finish: { transfer in
                guard let host = transfer.host else { return }
                let counted = transfer.stopsCounting()
                window.change { $0.finish(of: host, counted: counted) }
            })
        self.places = places
        if makesDirectories, !files.isStreamed, !files.printsHead {
            var directories = places.directories
            directories.insert(files.output.map { PathText.directory(of: files.outputPath($0)) } ?? files.directory)
            for directory in directories.sorted() { try prepare(directory) }
        }
        if files.usesServerNames, files.output == nil {
            try source.check(plain: false) { [files, serverNames] item throws(ToolError) in
                guard let name = item.name else { return }
                serverNames.keep(PathText.join(item.directory ?? files.directory, name))
            }
        }
    }

    private static let streamProblem =
        "--output to a device, a pipe or standard output allows no checksum or mirrors, because written bytes cannot be removed"
    private static let partProblem = "--range and --head cannot be combined with checksums, mirrors or a Metalink"

    func waitForChange() { window.waitForChange() }

    func next() -> TransferStep {
        if let (waiting, host) = window.with({ $0.next() }) {
            return step(for: waiting.file) { item throws(ToolError) in
                .transfer(try self.transfer(item, waiting.place, of: host))
            }
        }
        if isAtEnd { return window.with { $0.waitingCount } > 0 ? .wait : .end }
        guard window.with({ $0.wantsMore }) else { return .wait }
        switch source.next(within: window.with { $0.waitingCount } > 0 ? 20 : 100) {
        case .nothingYet: return .nothing
        case .end:
            isAtEnd = true
            return .nothing
        case .mistake(let error): return .settled(.failure(error, url: ""))
        case .file(let file, let isChecked):
            return step(for: file) { item throws(ToolError) in
                if !isChecked { try self.check(item) }
                return try self.begin(item, file)
            }
        }
    }

    /// Returns the step for a file, or a failure if the file is invalid.
    private func step(
        for file: DownloadSource.Waiting, _ body: (DownloadItem) throws(ToolError) -> TransferStep
    ) -> TransferStep {
        do throws(ToolError) {
            return try body(try file.item())
        } catch {
            var outcome = Outcome.failure(error, url: Shown.url(file.text))
            outcome.place = file.place
            return .settled(outcome)
        }
    }

    /// Checks a file that was read from a pipe, which could not be checked earlier.
    private func check(_ item: DownloadItem) throws(ToolError) {
        if files.output == nil, !files.printsHead { try places.reserve(item) }
        try settings.login.adopt(item.urls[0], options)
        try files.checkChecksum(of: item)
    }

    // MARK: Transfers

    /// Starts the transfer of a file, settles the file without a transfer, or defers it.
    private func begin(_ item: DownloadItem, _ file: DownloadSource.Waiting) throws(ToolError) -> TransferStep {
        if files.isStreamed { return .transfer(try streamed(item)) }
        let place = files.printsHead ? .file("") : try place(of: item)
        if let outcome = settle(item, place) { return .settled(outcome) }
        guard let host = Target(item.urls[0]) else { throw .usage("invalid URL '\(item.urls[0].forPeople)'") }
        guard window.with({ $0.admit(Waiting(file: file, place: place), of: host) }) else { return .nothing }
        return .transfer(try transfer(item, place, of: host))
    }

    private func place(of item: DownloadItem) throws(ToolError) -> DownloadPlaces.Place {
        if let output = files.output { return places.numbered(.file(files.outputPath(output))) }
        let (place, wanted) = places.take(item)
        if makesDirectories { try prepare(place.directory) }
        if let wanted, let path = place.path {
            display.say(OutcomeText.line(ofRenamed: item.urls[0], path: path, wanted: wanted))
        }
        return place
    }

    private func prepare(_ directory: String) throws(ToolError) {
        guard !prepared.contains(directory) else { return }
        try Directories.prepare(directory)
        prepared.insert(directory)
    }

    /// Returns the outcome for a file that already exists, or nil if it must be downloaded.
    private func settle(_ item: DownloadItem, _ place: DownloadPlaces.Place) -> Outcome? {
        guard let path = place.path, !files.printsHead else { return nil }
        var outcome = Outcome(url: Shown.url(item.text))
        outcome.place = item.place
        do throws(ToolError) {
            guard files.existing != .skip || files.hasChecksum(item) else {
                try Directories.checkLength(of: path)
                guard Directories.hasFile(path) else { return nil }
                outcome.file = path
                outcome.result = .skipped
                return outcome
            }
            try Directories.checkIsFree(
                path, partial: nil, replaces: files.existing != .fail, see: "-c, --no-clobber, -N, --number and --force")
            return nil
        } catch {
            outcome.error = error.text
            outcome.kind = FailureKind(error, statusCode: nil)
            return outcome
        }
    }

    private func transfer(
        _ item: DownloadItem, _ place: DownloadPlaces.Place, of host: Target
    ) throws(ToolError) -> Transfer {
        do throws(ToolError) {
            let transfer =
                if files.printsHead {
                    try stream(item, to: BodyFile(path: nil, replaces: false, hashes: false))
                } else if files.range != nil, let path = place.path {
                    try stream(
                        item,
                        to: BodyFile(path: path, replaces: files.existing == .replace, hashes: options.has("json")))
                } else {
                    try download(item, place)
                }
            transfer.host = host
            return transfer
        } catch {
            window.change { $0.finish(of: host, counted: true) }
            throw error
        }
    }

    private func download(_ item: DownloadItem, _ place: DownloadPlaces.Place) throws(ToolError) -> Transfer {
        let url = item.urls[0]
        let headers = try headers.adding(item.headers)
        let download = DownloadOperation(request: try headers.request(for: url))
        if let path = place.path {
            download.destination = UserPath.url(path, isDirectory: false)
        } else {
            download.directory = UserPath.url(place.directory, isDirectory: true)
        }
        try files.apply(to: download, of: item, path: place.path)
        if options.has("json") { download.computedChecksumAlgorithms = [.sha256] }
        let name = place.path.map { PathText.name(of: $0) } ?? FileNames.name(for: url)
        let transfer = Transfer(name: name, item: item, download: download, purpose: files.purpose)
        if case .directory(_, let directory) = place {
            download.placeFilter = { [serverNames, weak transfer] wanted in
                let choice = serverNames.place(wanted, in: directory)
                transfer?.setWantedName(choice.wanted)
                return choice.place
            }
            // Downloads of the same URL run one after the other.
            let partial = PartialPaths(directory: directory, url: url).partial
            if let earlier = unnamed[partial]?.transfer { download.addDependency(earlier.operation) }
            if unnamed.count > 10_000 { unnamed = unnamed.filter { $0.value.transfer != nil } }
            unnamed[partial] = WeakTransfer(transfer: transfer)
        }
        number += 1
        try settings.apply(to: transfer, number: number)
        return transfer
    }

    /// Returns the transfer of a file that is printed.
    private func streamed(_ item: DownloadItem) throws(ToolError) -> Transfer {
        let path = files.isStandardOutput ? nil : files.output.map(files.outputPath)
        return try stream(item, to: DescriptorSink(path: path, patience: settings.speed.maximumTime))
    }

    /// Returns a transfer whose body is written to a stream.
    private func stream(_ item: DownloadItem, to body: some BodyCounting) throws(ToolError) -> Transfer {
        let url = item.urls[0]
        let wanted = try headers.adding(item.headers).request(for: url)
        var request = DownloadOperation.askingForIdentity(wanted)
        var configuration = ConnectionConfiguration()
        configuration.decodesUnaskedEncodings = DownloadOperation.decodesBody(of: wanted)
        if files.printsHead { request.httpMethod = "HEAD" }
        if let range = files.range { request.setValue(range.field, forHTTPHeaderField: "Range") }
        let transfer = Transfer(
            id: nil, name: FileNames.name(for: url), request: request, url: url, item: item, body: body,
            purpose: files.purpose)
        if files.range != nil {
            var serializer = HTTPResponseSerializer()
            serializer.acceptableStatusCodes = [206]
            transfer.operation.responseSerializer = serializer
        }
        number += 1
        try settings.apply(to: transfer, configuration, number: number)
        return transfer
    }
}
