import Convoy
import Foundation

/// `convoy get`: downloads URLs.
enum GetCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let files = try FileOptions(options)
        let display = try Display(
            options, printsBodies: files.isStandardOutput || (files.printsHead && !options.has("json")))
        let feed = try DownloadFeed(options, files, display)
        if options.has("dry-run") { return Preview(display: display).print(feed) }
        defer { feed.settings.trace.finish() }
        let run = TransferRun(display: display, speed: feed.settings.speed, options: options, trace: feed.settings.trace)
        let status = feed.settings.finish(
            run.run(feed) { files.printsHead ? "\($0) answered" : "\($0) downloaded" }, display)
        if case .interrupted = status, !files.isStreamed { display.complain(ContinuingLine.sentence(options)) }
        return status
    }
}
