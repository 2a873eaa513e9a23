import ConvoySharedQueue
import Foundation
import Testing

@testable import ConvoyTool

/// The query of the page of a queue.
@Suite struct QueueQueryTests {
    private static let id = "6B29FC40-CA47-1067-B31D-00DD010662DA"

    /// Without IDs, the filter of a search would name entries that the page does not show.
    @Test(arguments: [
        ("state=failed", nil), ("q=", nil), ("q=+", nil), ("q=x", []), ("state=failed&q=x", []), ("id=\(id)", [id]),
        ("q=x&id=\(id)", [id]), ("q=x&id=nothing", []),
    ])
    func `a change of all applies to named entries if the page shows a search`(_ query: String, _ ids: [String]?) {
        #expect(QueueQuery(query).changeFilter.ids == ids?.compactMap { UUID(uuidString: $0) })
    }

    @Test func `a change of all keeps the selection of the page`() {
        let filter = QueueQuery("state=failed&tag=a%26b&group=g&host=h.example&q=x").changeFilter
        #expect(filter.states == [.failed] && filter.tag == "a&b" && filter.group == "g" && filter.host == "h.example")
        // An unknown state selects nothing rather than everything.
        #expect(QueueQuery("state=unknown").changeFilter.states == [])
    }
}
