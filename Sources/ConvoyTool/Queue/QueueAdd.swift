import Convoy
import ConvoySharedQueue
import ConvoySupport
import Foundation
import FoundationNetworking

/// `convoy queue add`: adds requests to a queue.
enum QueueAdd {
    static func run(_ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter) throws(ToolError) -> ExitStatus {
        let texts = options.arguments.dropFirst(), lists = options.all("input-file")
        guard !texts.isEmpty || !lists.isEmpty else { throw options.usage("no URL") }
        if texts.count > 1 || !lists.isEmpty, let name = ["output", "folder", "unique"].first(where: options.has) {
            throw options.usage("--\(name) can be used with one URL only\(lists.isEmpty ? "" : ", or in a list")")
        }
        guard (lists + [options.value("body")]).count(where: { $0 == "-" }) < 2 else {
            throw options.usage("standard input can be read only once")
        }
        let parts = try QueueRequestParts(options)
        let given = try texts.map { text throws(ToolError) in try parts.request(text) }
        let readers = try lists.map { path throws(ToolError) in
            QueueListReader(try ListReader(path), options, parts, printer.display)
        }
        for reader in readers { try reader.check() }
        warn(options, printer.display)
        try QueueCall.connect(queue, printer.display, options, makes: true)
        try add(given, queue, printer)
        var count = given.count
        do throws(ToolError) {
            for reader in readers {
                while let requests = try reader.next(parts.step) {
                    try add(requests, queue, printer)
                    count += requests.count
                }
            }
        } catch {
            if count > 0 { printer.display.complain("\(QueueText.count(count)) added before the failure") }
            throw error
        }
        return .success
    }

    private static func add(
        _ requests: [SharedRequest], _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) {
        guard !requests.isEmpty else { return }
        let ids = try QueueCall.result { try await queue.enqueue(requests) }
        for (id, request) in zip(ids, requests) { printer.print(added: id, isNew: id == request.id) }
    }

    /// Reports the headers that are not stored.
    ///
    /// - Returns: Whether there are any.
    @discardableResult
    static func warn(_ options: Options, _ display: Display) -> Bool {
        let names = options.all("header").map { Headers.parts(of: $0) }
            .filter { SuppliedHeaders.isSecret($0.name, $0.value) }.map { Printable.line($0.name) }
        guard !names.isEmpty else { return false }
        display.complain(
            "secrets are not stored: give \(names.joined(separator: ", ")) to the workers with -H and --secrets-for")
        return true
    }
}
