import Convoy
import ConvoySharedQueue
import ConvoySupport
import Foundation
import FoundationNetworking

/// The parts of requests that the options of `convoy queue add` and `schedule add` specify.
struct QueueRequestParts {
    private let options: Options
    private let headers: Headers
    private let body: Data?

    init(_ options: Options) throws(ToolError) {
        self.options = options
        body = try Self.body(options)
        headers = try Headers(options)
    }

    /// The maximum number of requests to add in one transaction. All copies of the body must fit into memory.
    var step: Int { max(1, min(1000, (64 << 20) / max(1, body?.count ?? 0))) }

    /// Creates the request for a URL.
    func request(_ text: String) throws(ToolError) -> SharedRequest {
        let url = try DownloadURL.parse(text)
        guard try Login.taken(from: url) == nil else {
            throw .usage(
                "\(url.forPeople) contains a login, which would be stored: give it to the workers with --user and --secrets-for"
            )
        }
        let address = url.absoluteString, shown = Redaction.url(address)
        guard shown.utf8.elementsEqual(address.utf8) else {
            throw .usage(SharedQueueError.secretInURL(shown).description)
        }
        var request = try headers.request(for: url)
        request.httpMethod = try method(hasBody: body != nil)
        if let timeout = try options.seconds("timeout") {
            guard timeout > 0 else { throw options.usage("--timeout takes more than 0 seconds") }
            request.timeoutInterval = timeout
        }
        var shared = try entry(request)
        shared.dependencies = Set(try QueueFilter.ids(options.all("after"), options))
        if let text = try options.choice("failed-dependency"), let index = QueueAction.policies.firstIndex(of: text) {
            shared.failedDependencyPolicy = [.hold, .run, .fail][index]
        }
        shared.tag = options.value("tag")
        shared.group = options.value("group")
        shared.uniqueKey = options.value("unique")
        shared.uniquePeriod = try QueueTime.seconds("unique-for", options)
        guard shared.uniqueKey != nil || shared.uniquePeriod == nil else {
            throw options.usage("--unique-for requires --unique")
        }
        if let text = try options.choice("priority"), let index = QueueAction.priorities.firstIndex(of: text) {
            shared.priority = [.veryLow, .low, .normal, .high, .veryHigh][index]
        }
        shared.notBefore = try QueueTime.date("not-before", options)
        shared.deadline = try QueueTime.date("deadline", options)
        if let attempts = try options.integer("attempts", in: 1...10_000) { shared.maximumAttempts = attempts }
        return shared
    }

    /// Returns the kind of request that the options specify.
    private func entry(_ request: URLRequest) throws(ToolError) -> SharedRequest {
        let places = ["output", "directory", "folder", "keep-body"].filter(options.has)
        guard places.count < 2 else { throw options.usage("--\(places[0]) and --\(places[1]) cannot be combined") }
        if let path = options.value("output") ?? options.value("directory") {
            guard body == nil,
                request.httpMethod == "GET"
            else { throw options.usage("a download must be a GET without a body") }
            guard path != "-", !path.isEmpty else { throw options.usage("--\(places[0]) takes a path") }
            let place = UserPath.url(path).absoluteURL.standardizedFileURL
            let isFile = options.has("output")
            var download =
                isFile ? DownloadRequest(request, destination: place) : DownloadRequest(request, directory: place)
            // A later occurrence of a schedule replaces the file of an earlier one.
            if options.has("cron") || options.has("every") { download.existingFilePolicy = .replace }
            return SharedRequest(download)
        }
        let isHarmless = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(request.httpMethod)
        let outbox = { OutboxRequest(request, body: body.map { .data($0) }) }
        var shared = body == nil && isHarmless ? SharedRequest(request) : SharedRequest(outbox())
        if options.has("keep-body") { shared.responseBody = .entry() }
        if let text = options.value("folder") {
            guard let sign = text.firstIndex(of: "="), sign > text.startIndex, text.index(after: sign) < text.endIndex else {
                throw options.usage("--folder takes NAME=PATH")
            }
            shared.responseBody = .folder(String(text[..<sign]), path: String(text[text.index(after: sign)...]))
        }
        return shared
    }

    private func method(hasBody: Bool) throws(ToolError) -> String {
        let method = options.value("method") ?? (hasBody ? "POST" : "GET")
        guard !method.isEmpty, method.allSatisfy({ $0.isASCII && ($0.isLetter || $0 == "-") }) else {
            throw options.usage("--method takes a method such as PUT")
        }
        return method
    }

    private static func body(_ options: Options) throws(ToolError) -> Data? {
        if options.has("data"), options.has("body") { throw options.usage("--data and --body cannot be combined") }
        if let text = options.value("data") { return Data(text.utf8) }
        guard let path = options.value("body") else { return nil }
        return try InputFile.contents(
            of: path, called: path == "-" ? "standard input" : "the body \(Printable.line(path))", limit: 16 << 20)
    }
}
