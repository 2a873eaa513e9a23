import ConvoySharedQueue
import ConvoyWorkflow
import Foundation

/// The web page of a queue, as HTML. Its links are relative.
struct QueueView: Sendable {
    /// The number of entries per page.
    static let rowCount = 100

    var name = ""
    var overview = QueueOverview()
    var entries: [SharedQueue.Entry] = []
    /// The sequence number after which the next page begins; nil on the last page.
    var next: Int64?
    var query = QueueQuery("")
    var now = Date()

    init() {}

    init(_ queue: SharedQueue, _ query: QueueQuery) async throws(SharedQueueError) {
        name = queue.store.name
        self.query = query
        var filter = query.filter
        filter.states = nil
        overview = try await QueueOverview(queue, filter)
        let place = query["behind"].flatMap { Int64($0) }
        filter = query.filter
        if let text = query.search, let id = UUID(uuidString: text) { filter.ids = [id] }
        if let text = query.search, filter.ids == nil {
            (entries, next) = try await queue.search(text, filter, behind: place, limit: Self.rowCount)
        } else {
            let entries = try await queue.entries(filter, behind: place, newestFirst: true, limit: Self.rowCount + 1)
            self.entries = Array(entries.prefix(Self.rowCount))
            next = entries.count > Self.rowCount ? self.entries.last?.sequence : nil
        }
    }

    // MARK: Pages

    func page(_ token: String) -> String {
        let pause = overview.isPaused ? "resume" : "pause"
        return Self.document(
            title: "Queue",
            """
            <header><h1>Queue</h1><p class="name">\(HTML.text(name))</p>
            <form method="post" action="\(pause)\(HTML.text(query.description))">\(Self.field(token))
            \(overview.isPaused ? "<strong>Paused</strong>" : "")\
            <button id="\(pause)">\(overview.isPaused ? "Resume" : "Pause") the queue</button></form></header>
            \(states)\(age)\(hosts)\(workers)\(table(token))
            """)
    }

    /// Returns the page of one entry.
    static func entryPage(_ queue: SharedQueue, _ id: UUID, _ token: String) async throws(SharedQueueError) -> String {
        let entry = try await queue.entry(id)
        let edges = try await queue.dependencies(of: id)
        let result = try await queue.result(of: id)
        let rows = QueuePrinter.rows(
            of: entry, dependencies: edges.dependencies, dependents: edges.dependents, result)
        let list = rows.map { "<dt>\(HTML.text($0.name))</dt><dd>\(HTML.text($0.value))</dd>" }.joined(separator: "\n")
        let parts = [result?.header, result?.body.map { String(decoding: $0.prefix(65_536), as: UTF8.self) }]
        return document(
            title: "Entry \(entry.sequence)",
            """
            <header><h1>Entry \(entry.sequence)</h1><p class="name"><a id="all" href="./">All entries</a></p></header>
            <form class="buttons" method="post" action="entries?entry=\(id.text)">\(field(token))\(buttons(for: entry))</form>
            <dl>\(list)</dl>
            \(parts.compactMap { $0 }.map { "<pre tabindex=\"0\">\(HTML.text($0))</pre>" }.joined(separator: "\n"))
            """)
    }

    /// Returns the page that asks before many entries are changed.
    static func confirmation(
        _ queue: SharedQueue, _ change: QueueChange, _ query: QueueQuery, _ token: String
    ) async throws(SharedQueueError) -> String {
        let counts = try await queue.counts(change.filter(query.changeFilter))
        let count = counts.values.reduce(0, +), label = change.label(query.state)
        let number = QueueText.count(count)
        let items = query.selection.map {
            "<dt>\(HTML.text($0.name == "q" ? "search" : $0.name))</dt><dd>\(HTML.text($0.value))</dd>"
        }
        let button =
            count == 0
            ? "<p>No entry can be changed in this way.</p>"
            : "<button id=\"confirm\" name=\"\(change.rawValue)\" value=\"all\">\(label) \(number)</button>"
        return document(
            title: "\(label) \(number)?",
            """
            <header><h1>\(label) \(number)?</h1></header>
            <dl>\(items.joined(separator: "\n"))</dl>
            <form class="confirm" method="post" action="entries\(HTML.text(query.description))">\(field(token))
            <input type="hidden" name="confirmed" value="yes">\(button)
            <a id="back" href="./\(HTML.text(query.without("id").description))">Back without changes</a></form>
            """)
    }

    static func problemPage(_ text: String) -> String {
        document(
            title: "Queue",
            """
            <header><h1>Queue</h1></header>
            <p class="problem" role="alert">\(HTML.text(text))</p><p><a id="all" href="./">All entries</a></p>
            """)
    }

    private static func document(title: String, _ body: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8"><title>\(title)</title>
        <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
        <link rel="stylesheet" href="style.css"><script src="page.js" defer></script></head>
        <body><p id="stale" role="status" hidden>The page could not be refreshed.</p><main>
        \(body)
        </main></body></html>

        """
    }

    static func field(_ token: String) -> String {
        "<input type=\"hidden\" name=\"token\" value=\"\(HTML.text(token))\">"
    }

    // MARK: Buttons

    /// Returns the buttons for an entry. Their names contain the number of the entry.
    static func buttons(for entry: SharedQueue.Entry) -> String {
        QueueChange.available(in: entry.state).map { change in
            let label = change.label(entry.state)
            return """
                <button id="\(change.rawValue)-\(entry.id.text)" name="\(change.rawValue)" value="\(entry.id.text)" \
                aria-label="\(label) entry \(entry.sequence)">\(label)</button>
                """
        }.joined()
    }

    /// Returns the links to changes of all entries in the chosen state or, in a search, of those on this page.
    var bulkChanges: String {
        guard let state = query.state, !entries.isEmpty else { return "" }
        let isSearch = query.search != nil
        let count = isSearch ? entries.count : overview.counts[state] ?? 0
        var target = query.without("behind").without("id")
        if isSearch { target = target.adding("id", entries.map(\.id.text)) }
        return QueueChange.available(in: state).map { change in
            let label = "\(change.label(state)) \(isSearch ? "these" : "all") \(count) …"
            return """
                <a class="button" id="\(change.rawValue)-all" \
                href="confirm\(HTML.text(target.setting("action", change.rawValue).description))">\(label)</a>
                """
        }.joined()
    }
}

/// Functions that escape text for HTML.
enum HTML {
    /// Returns a string that a browser shows unchanged, between tags and in quoted attributes. Invisible characters, and
    /// those that change the direction of text, become question marks.
    static func text(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { $0 != "\n" && Printable.isObeyed($0) ? "?" : $0 }
        return Markup.escaped(String(String.UnicodeScalarView(scalars)))
    }
}
