import ConvoySharedQueue
import ConvoySupport
import Foundation

/// The entries that a command applies to, according to its arguments and options.
enum QueueFilter {
    /// Returns the filter that the arguments and options specify.
    ///
    /// - Parameter changes: Whether the command changes entries. If so, its arguments are entry IDs, and a selection is
    ///   required.
    static func filter(_ options: Options, changes: Bool) throws(ToolError) -> SharedQueue.Filter {
        var filter = SharedQueue.Filter()
        let words = options.arguments.dropFirst()
        if changes, !words.isEmpty { filter.ids = try ids(words, options) }
        if !changes, let word = words.first { throw options.usage("unexpected argument '\(Printable.line(word))'") }
        let states = options.all("state")
        if !states.isEmpty {
            filter.states = []
            for text in states.flatMap({ $0.split(separator: ",") }) {
                guard let state = WorkState(rawValue: String(text)) else {
                    throw options.usage("--state takes \(WordChoice.text(QueueAction.states))")
                }
                filter.states?.insert(state)
            }
        }
        filter.tag = options.value("tag")
        filter.group = options.value("group")
        filter.host = options.value("host")
        if let text = filter.host { _ = try host(text, options) }
        return filter
    }

    /// Returns a host as it is stored, or throws an error for a pattern.
    static func host(_ text: String, _ options: Options) throws(ToolError) -> String {
        do throws(SharedQueueError) {
            return try SharedQueue.authority(text)
        } catch {
            throw options.usage("invalid host '\(Printable.line(text))': use a host, with its port if necessary")
        }
    }

    static func ids(_ words: some Sequence<String>, _ options: Options) throws(ToolError) -> [UUID] {
        var ids: [UUID] = []
        for word in words {
            guard let id = UUID(uuidString: word) else {
                throw options.usage("'\(Printable.line(word))' is not an entry ID: use an ID printed by queue list")
            }
            ids.append(id)
        }
        return ids
    }
}

extension UUID {
    /// The ID as printed.
    var text: String { uuidString.lowercased() }
}
