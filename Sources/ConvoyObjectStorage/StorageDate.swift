import Foundation

/// A parser for the dates in documents of servers and of credential commands: `2009-10-12T17:50:30.000Z`.
enum StorageDate {
    static func parse(_ text: String) -> Date? {
        (try? Date(text, strategy: .iso8601.time(includingFractionalSeconds: true)))
            ?? (try? Date(text, strategy: .iso8601))
    }
}
