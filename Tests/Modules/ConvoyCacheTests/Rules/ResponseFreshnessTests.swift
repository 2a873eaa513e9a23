import ConvoyCache
import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

/// The freshness of data that another cache derives from a response.
@Suite struct ResponseFreshnessTests {
    private func freshness(_ fields: [String: String], at seconds: Int64 = 1_700_000_000) throws -> ResponseFreshness {
        let url = try #require(URL(string: "http://a.test/"))
        let response = HTTPURLResponse(url: url, statusCode: 200, httpVersion: nil, headerFields: fields)
        return ResponseFreshness(try #require(response), now: Date(timeIntervalSince1970: TimeInterval(seconds)))
    }

    @Test func `the age on arrival is subtracted from the lifetime`() throws {
        let sent = HTTPDate.string(1_700_000_000 - 20)
        #expect(try freshness(["Date": sent, "Cache-Control": "max-age=60"]) == .seconds(40))
        #expect(try freshness(["Date": sent, "Expires": HTTPDate.string(1_700_000_000 + 10)]) == .seconds(10))
        #expect(try freshness(["Age": "59", "Cache-Control": "max-age=60"]) == .seconds(1))
        #expect(try freshness(["Age": "60", "Cache-Control": "max-age=60"]) == ResponseFreshness.none)
    }

    @Test func `a response that must be validated has no freshness, and one without fields states none`() throws {
        for directive in ["no-store", "no-cache"] {
            #expect(try freshness(["Cache-Control": "\(directive), max-age=60"]) == ResponseFreshness.none)
        }
        #expect(try freshness([:]) == .unstated)
    }
}
