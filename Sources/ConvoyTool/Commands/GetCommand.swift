import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// `convoy get`: downloads URLs.
struct GetCommand {
    private let options: Options
    private let display: Display
    private let files: FileOptions
    private let headers: Headers
    private let settings: TransferSettings
    private let items: [DownloadItem]
    private let serverNames = ServerNames()

    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let files = try FileOptions(options)
        let display = try Display(options, printsBodies: files.isStandardOutput)
        let command = try GetCommand(options, files, display)
        let status = options.has("dry-run") ? try command.preview() : try command.download()
        if case .interrupted = status, !files.isStreamed {
            display.complain(ContinuingLine.sentence(options))
        }
        return status
    }

    private init(_ options: Options, _ files: FileOptions, _ display: Display) throws(ToolError) {
        (self.options, self.files, self.display) = (options, files, display)
        let speed = try SpeedOptions(options)
        headers = try Headers(options)
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        items = try files.items(options)
        // Last, as they may ask for a password and a passphrase.
        let login = try LoginOptions(options, for: items.compactMap(\.urls.first))
        let trust = try TrustOptions(options)
        settings = TransferSettings(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: trust,
            trace: try TraceOptions(options, display, count: items.count))
        if let warning = trust.warning { display.complain(warning) }
    }

    private func download() throws(ToolError) -> ExitStatus {
        defer { settings.trace.finish() }
        let (transfers, settled) = try transfers()
        let run = TransferRun(display: display, speed: settings.speed, options: options, trace: settings.trace)
        let status = run.run(transfers, settled: settled) { "\($0) downloaded" }
        return settings.finish(status, display)
    }

    /// Prints what would be sent.
    private func preview() throws(ToolError) -> ExitStatus {
        let (transfers, settled) = try transfers(makesDirectories: false)
        return Preview(display: display).print(transfers, settled: settled)
    }

    // MARK: Transfers

    /// The transfers, and the outcomes that are known without one.
    private func transfers(makesDirectories: Bool = true) throws(ToolError) -> ([Transfer], settled: [Outcome]) {
        if files.isStreamed, let item = items.first { return ([try streamed(item)], []) }
        let places = try places()
        if makesDirectories {
            for directory in Set(places.map(\.directory)).sorted() { try Directories.prepare(directory) }
        }
        var transfers: [Transfer] = []
        var settled: [Outcome] = []
        // The downloads whose partial files are named after their URLs.
        var unnamed: [String: Transfer] = [:]
        for (item, place) in zip(items, places) {
            if let outcome = settle(item, place) {
                settled.append(outcome)
                continue
            }
            let transfer = try transfer(item, place, number: transfers.count + 1)
            transfers.append(transfer)
            guard case .directory(_, let directory) = place else { continue }
            // One after the other, where several are of the same URL.
            let partial = PartialPaths(directory: directory, url: transfer.url).partial
            if let earlier = unnamed.updateValue(transfer, forKey: partial) {
                transfer.operation.addDependency(earlier.operation)
            }
        }
        return (transfers, settled)
    }

    /// What has become of a file whose name is taken; nil if it is to be fetched.
    private func settle(_ item: DownloadItem, _ place: DownloadPlaces.Place) -> Outcome? {
        guard let path = place.path else { return nil }
        let url = Redaction.url(item.urls[0].absoluteString)
        do throws(ToolError) {
            guard files.existing != .skip || files.hasChecksum(item) else {
                try Directories.checkLength(of: path)
                return Directories.hasFile(path) ? Outcome(url: url, file: path, result: .skipped) : nil
            }
            try Directories.checkIsFree(
                path, partial: nil, replaces: files.existing != .fail, see: "-c, --no-clobber, -N and --force")
            return nil
        } catch {
            return .failure(error, url: url)
        }
    }

    private func places() throws(ToolError) -> [DownloadPlaces.Place] {
        if let output = files.output {
            let path = files.outputPath(output)
            guard !path.hasSuffix("/"), !path.unicodeScalars.contains("\0") else {
                throw options.usage("--output takes a file, and --directory a directory")
            }
            return [.file(path)]
        }
        var places = DownloadPlaces(directory: files.directory, usesServerNames: files.usesServerNames)
        var taken: [Int: DownloadPlaces.Place] = [:]
        for item in items { places.keepDirectories(of: item) }
        // First those whose names are fixed: others can go out of their way.
        let order = items.indices.filter { items[$0].name != nil } + items.indices.filter { items[$0].name == nil }
        for index in order {
            let (place, wanted) = try places.take(items[index])
            taken[index] = place
            if let wanted, let path = place.path {
                display.say(OutcomeText.line(ofRenamed: items[index].urls[0], path: path, wanted: wanted))
            }
        }
        if files.usesServerNames { for path in taken.values.compactMap(\.path) { serverNames.keep(path) } }
        return items.indices.compactMap { taken[$0] }
    }

    private func transfer(
        _ item: DownloadItem, _ place: DownloadPlaces.Place, number: Int
    ) throws(ToolError) -> Transfer {
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
        let transfer = Transfer(name: name, url: url, download: download)
        if case .directory(_, let directory) = place {
            download.placeFilter = { [serverNames, weak transfer] wanted in
                let choice = serverNames.place(wanted, in: directory)
                transfer?.setWantedName(choice.wanted)
                return choice.place
            }
        }
        try settings.apply(to: transfer, headers.configuration, number: number)
        return transfer
    }

    /// The transfer of a file that is printed.
    private func streamed(_ item: DownloadItem) throws(ToolError) -> Transfer {
        guard item.checksum == nil, item.urls.count == 1, item.metalink == nil, !options.has("checksum-file") else {
            throw options.usage(
                "--output to a device, a pipe or standard output takes no checksum and no mirrors, as nothing can be taken back"
            )
        }
        let path = files.isStandardOutput ? nil : files.output.map(files.outputPath)
        let url = item.urls[0]
        let headers = try headers.adding(item.headers)
        let request = try headers.request(for: url)
        let transfer = Transfer(
            id: nil, name: FileNames.name(for: url), request: DownloadOperation.askingForIdentity(request), url: url,
            body: DescriptorSink(path: path, patience: settings.speed.maximumTime))
        var configuration = headers.configuration
        configuration.decodesUnaskedEncodings = DownloadOperation.decodesBody(of: request)
        try settings.apply(to: transfer, configuration, number: 1)
        return transfer
    }
}
