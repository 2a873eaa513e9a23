import ConvoySharedQueue
import Foundation

/// The items of a query or a form.
struct QueueQuery: Sendable, CustomStringConvertible {
    private var items: [(name: String, value: String)] = []

    init(_ text: String) {
        for item in text.split(separator: "&") {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { part in
                String(part).replacing("+", with: " ").removingPercentEncoding ?? ""
            }
            items.append((parts[0], parts.count > 1 ? parts[1] : ""))
        }
    }

    /// Returns the path and the query of a request target.
    static func parts(of target: String) -> (path: String, query: QueueQuery) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        return (parts[0], QueueQuery(parts.count > 1 ? parts[1] : ""))
    }

    subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    func all(_ name: String) -> [String] { items.filter { $0.name == name }.map(\.value) }

    func without(_ name: String) -> QueueQuery {
        var query = self
        query.items.removeAll { $0.name == name }
        return query
    }

    func setting(_ name: String, _ value: String?) -> QueueQuery {
        var query = without(name)
        if let value { query.items.append((name, value)) }
        return query
    }

    func adding(_ name: String, _ values: some Sequence<String>) -> QueueQuery {
        var query = self
        for value in values { query.items.append((name, value)) }
        return query
    }

    /// The items that select entries.
    var selection: [(name: String, value: String)] {
        items.filter { ["state", "tag", "group", "host"].contains($0.name) || $0.name == "q" && !$0.value.isEmpty }
    }

    /// The query with its question mark, or an empty string.
    var description: String {
        items.isEmpty ? "" : "?" + items.map { "\(Self.encoded($0.name))=\(Self.encoded($0.value))" }.joined(separator: "&")
    }

    private static let plain = CharacterSet(
        charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")

    private static func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: plain) ?? "" }

    /// The entries that a change of all applies to. Those of a search are named by their IDs.
    var changeFilter: SharedQueue.Filter {
        var filter = filter
        if search != nil, filter.ids == nil { filter.ids = [] }
        return filter
    }

    /// The entries that the page shows, apart from its search.
    var filter: SharedQueue.Filter {
        var filter = SharedQueue.Filter()
        // An unknown state selects nothing, because a change of everything would be the worst reading.
        if let text = self["state"] { filter.states = WorkState(rawValue: text).map { [$0] } ?? [] }
        filter.tag = self["tag"]
        filter.group = self["group"]
        filter.host = self["host"]
        let ids = all("id")
        if !ids.isEmpty { filter.ids = ids.compactMap { UUID(uuidString: $0) } }
        return filter
    }

    var state: WorkState? { self["state"].flatMap { WorkState(rawValue: $0) } }

    /// The text to search for; nil for none.
    var search: String? { self["q"].map { $0.trimmingCharacters(in: .whitespaces) }.flatMap { $0.isEmpty ? nil : $0 } }
}
