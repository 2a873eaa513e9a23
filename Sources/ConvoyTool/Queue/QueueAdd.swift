import Convoy
import ConvoySharedQueue
import ConvoySupport
import Foundation
import FoundationNetworking

/// `convoy queue add`: adds requests to a queue.
enum QueueAdd {
    static func run(_ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter) throws(ToolError) -> ExitStatus {
        let texts = options.arguments.dropFirst()
        guard !texts.isEmpty else { throw options.usage("no URL") }
        if texts.count > 1, let name = ["output", "folder", "unique"].first(where: options.has) {
            throw options.usage("--\(name) can be used with one URL only")
        }
        let parts = try QueueRequestParts(options)
        var requests: [SharedRequest] = []
        for text in texts { requests.append(try parts.request(text)) }
        warn(options, printer.display)
        let prepared = requests
        try QueueCall.connect(queue, printer.display, options, makes: true)
        let ids = try QueueCall.result { try await queue.enqueue(prepared) }
        for (id, request) in zip(ids, prepared) { printer.print(added: id, isNew: id == request.id) }
        return .success
    }

    /// Reports the headers that are not stored.
    static func warn(_ options: Options, _ display: Display) {
        let names = options.all("header").map { Headers.parts(of: $0) }
            .filter { SuppliedHeaders.isSecret($0.name, $0.value) }.map { Printable.line($0.name) }
        guard !names.isEmpty else { return }
        display.complain(
            "secrets are not stored: give \(names.joined(separator: ", ")) to the workers with -H and --secrets-for")
    }
}
