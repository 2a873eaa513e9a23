import ConvoySharedQueue
import ConvoySupport
import Dispatch
import Foundation

/// `convoy queue serve`: a web page on this machine that shows and changes a queue.
enum QueueServe {
    static func run(_ options: Options, _ queue: SharedQueue, _ display: Display) throws(ToolError) -> ExitStatus {
        if options.arguments.count > 1 {
            throw options.usage("unexpected argument '\(Printable.line(options.arguments[1]))'")
        }
        let port = UInt16(try options.integer("port", in: 0...65_535) ?? 0)
        let proxy = try options.value("base-url").map { text throws(ToolError) in
            guard let proxy = QueueProxy(text) else {
                throw options.usage("--base-url takes the URL of the page behind a proxy: https://ops.example.com/queue/")
            }
            return proxy
        }
        // Connect now, to report problems with the store immediately.
        try QueueCall.connect(queue, display, options)
        let site = QueueSite(queue, proxy)
        let server = try LoopbackAddress.serve(port) { site.response(to: $0) }
        site.setPort(server.port)
        let local = "http://127.0.0.1:\(server.port)/"
        let address = "\(proxy?.url ?? local)?token=\(site.token)"
        if options.has("json") {
            var line = JSONLine()
            line.add("url", address)
            line.add("port", Int64(server.port))
            display.emit(line.text)
        } else {
            display.say("The queue is at \(address)")
            if proxy != nil { display.say("The proxy must forward to \(local)") }
            display.say("Anyone with this address can change the queue. Press Ctrl-C to stop.")
        }
        let isOver = DispatchSemaphore(value: 0)
        Interruption.shared.onInterrupt { isOver.signal() }
        isOver.wait()
        server.stop()
        return Interruption.shared.status ?? .success
    }
}

/// The URL of the page for browsers that reach it through a proxy, as given by the user. Header fields of requests, such as
/// `X-Forwarded-Prefix`, are not trusted.
struct QueueProxy: Sendable, Equatable {
    let target: Target
    /// The path, which begins and ends with a slash.
    let path: String

    /// - Returns: Nil if the text is not an http or https URL of a directory.
    init?(_ text: String) {
        guard let scheme = text.range(of: "://"), let target = Target(text), target.port > 0, !text.contains("@") else {
            return nil
        }
        let path = text[scheme.upperBound...].drop { $0 != "/" }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard !text.contains(where: { "?#\\".contains($0) }), !parts.dropLast().contains(""),
            !parts.contains(where: { [".", ".."].contains($0) }),
            path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: ";") })
        else { return nil }
        self.target = target
        self.path = path.hasSuffix("/") ? String(path) : "\(path)/"
    }

    var url: String { "\(target.scheme)://\(target.authority)\(path)" }
}
