import Foundation

/// Searching for entries by their text.
extension WorkStore {
    /// The maximum length of a text to search for, in characters.
    private static let longestText = 200

    /// Returns entries whose URL, tag, group, unique key or error contains a text, newest first. Case is ignored for
    /// ASCII, and in PostgreSQL for other letters. Reads at most ``searchLimit`` entries.
    ///
    /// - Returns: The entries, and the sequence number after which to continue; nil at the end.
    package func search(
        _ text: String, _ filter: WorkFilter, behind place: Int64? = nil, limit: Int
    ) throws(SharedQueueError) -> (records: [WorkRecord], next: Int64?) {
        var (condition, values) = sql(filter)
        if let place {
            values.append(.integer(place))
            condition += " AND e.sequence < $\(values.count)"
        }
        let range = "FROM entry AS e WHERE \(condition) ORDER BY e.sequence DESC LIMIT \(searchLimit)"
        let end = try database.query("SELECT count(*), min(s.sequence) FROM (SELECT e.sequence \(range)) AS s", values).first
        guard let first = end?.integer(1) else { return ([], nil) }
        // Entries may have been added in the meantime, so the second statement ends where the first one did.
        values.append(.integer(first))
        condition += " AND e.sequence >= $\(values.count)"
        values.append(.text(Self.pattern(text)))
        let pattern = "$\(values.count)"
        let matches = ["q.url", "e.tag", "e.batch", "e.unique_key", "e.error"].map { column in
            "lower(\(column)) LIKE lower(\(pattern)) ESCAPE '!'"
        }
        values.append(.integer(Int64(limit)))
        let records = try database.query(
            """
            SELECT \(Self.recordColumns) FROM entry AS e JOIN request AS q ON q.id = e.id
            WHERE \(condition) AND (\(matches.joined(separator: " OR "))) ORDER BY e.sequence DESC LIMIT $\(values.count)
            """, values
        ).compactMap(Self.record)
        if records.count == limit { return (records, records.last?.sequence) }
        return (records, end?.int(0) == searchLimit ? first : nil)
    }

    private static func pattern(_ text: String) -> String {
        // SQLite would end the pattern at a NUL character, which no stored text contains.
        let escaped = String(text.prefix(longestText)).unicodeScalars.map { scalar in
            scalar == "\0" ? "\u{FFFD}" : ["!", "%", "_"].contains(scalar) ? "!\(scalar)" : String(scalar)
        }
        return "%\(escaped.joined())%"
    }
}
