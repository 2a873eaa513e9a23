import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySupport

struct HTTPDateTests {
    /// The time of the example in RFC 9110, section 5.6.7: 6 November 1994, 08:49:37.
    static let example: Int64 = 784_111_777
    /// The time of 1 January 2026.
    static let now: Int64 = 1_767_225_600

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    ])
    func `the three formats of the RFC give the same time`(text: String) {
        #expect(HTTPDate.parse(text, now: Self.now) == Self.example)
    }

    @Test(arguments: [
        "  Sun,  06 Nov 1994  08:49:37 GMT ", "Sun, 6 Nov 1994 08:49:37 GMT", "sun, 06 NOV 1994 08:49:37 gmt",
        "Mon, 06 Nov 1994 08:49:37 GMT", "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "Sun Nov 06 08:49:37 1994",
    ])
    func `other unambiguous formats of servers are accepted`(text: String) {
        #expect(HTTPDate.parse(text, now: Self.now) == Self.example)
    }

    static let refused = [
        // Fields that are out of range, and days that do not exist in their month.
        "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 30 Feb 1996 08:49:37 GMT", "Sun, 29 Feb 1994 08:49:37 GMT", "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 25:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 13 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
        "Monday, 29-Feb-94 08:49:37 GMT", "Sun Feb 30 08:49:37 1996",
        // Years with a wrong number of digits, and numbers at the limits of machine words.
        "Sun, 06 Nov 94 08:49:37 GMTx", "Sun, 06 Nov 199 08:49:37 GMT", "Sun, 06 Nov 19940 08:49:37 GMT",
        "Sun, 06 Nov -9223372036854775808 08:49:37 GMT", "Sun, 06 Nov 9223372036854775807 08:49:37 GMT",
        "Sun, 06 Nov -1 08:49:37 GMT", "Sun, 06 Nov +994 08:49:37 GMT", "Sun, -6 Nov 1994 08:49:37 GMT",
        "Sun, 9223372036854775807 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 -8:49:37 GMT",
        "Sun, 06 Nov 1994 9223372036854775807:49:37 GMT", "Sun, 06 Nov 1994 08:49:9223372036854775807 GMT",
        "Sunday, 06-Nov-4 08:49:37 GMT", "Sunday, 06-Nov-994 08:49:37 GMT", "Sun Nov  6 08:49:37 94",
        "Sun Nov  6 08:49:37 -9223372036854775808", "Sun, 06 Nov ١٩٩٤ 08:49:37 GMT",
        // Other formats and time zones.
        "", " ", "Sun", "Sun, 06 Nov 1994", "06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37:00 GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37 +0100", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun, 06--Nov-94 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z", "784111777",
        "Sun, 06 Nov 1994 08:49:37 GMT GMT", String(repeating: " ", count: 1 << 20) + "Sun, 06 Nov 1994 08:49:37 GMT",
    ]

    @Test(arguments: refused)
    func `invalid dates are rejected`(text: String) {
        #expect(HTTPDate.parse(text, now: Self.now) == nil)
    }

    @Test(
        arguments: [
            ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200), ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400), ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
        ] as [(String, Int64)])
    func `calendar limits, leap days and leap seconds are parsed correctly`(text: String, seconds: Int64) {
        #expect(HTTPDate.parse(text) == seconds)
    }

    @Test(arguments: [
        // The current year, the two digits, and the expected year. In 2026 the limit is the same day in 2076.
        (2026, "94", 1994), (2026, "26", 2026), (2026, "75", 2075), (2026, "76", 1976), (2026, "77", 1977),
        (2060, "05", 2105), (2060, "11", 2011), (1999, "48", 2048), (1999, "49", 1949), (2000, "00", 2000),
    ])
    func `a two-digit year more than fifty years ahead is in the previous century`(
        today: Int64, year: String, meant: Int64
    ) throws {
        let now = try #require(HTTPDate.parse("Sun, 01 Jan \(today) 00:00:00 GMT"))
        let expected = try #require(HTTPDate.parse("Sun, 06 Nov \(meant) 08:49:37 GMT"))
        #expect(HTTPDate.parse("Sunday, 06-Nov-\(year) 08:49:37 GMT", now: now) == expected)
    }

    @Test(arguments: [.min, -1, 0, 253_402_300_799, .max] as [Int64])
    func `a two-digit year is parsed at any time of the clock`(now: Int64) {
        for year in 0...99 {
            let text = "Sunday, 28-Feb-\(year < 10 ? "0" : "")\(year) 08:49:37 GMT"
            #expect(HTTPDate.parse(text, now: now) != nil)
        }
    }

    @Test func `a formatted date has a fixed length and parses to the same time`() {
        var generator = SplitMix64.printingSeed()
        for _ in 0..<2_000 {
            let seconds = Int64.random(in: -62_167_219_200...253_402_300_799, using: &generator)
            let text = HTTPDate.string(seconds)
            #expect(HTTPDate.parse(text) == seconds && text.utf8.count == 29, "\(seconds): \(text)")
        }
        #expect(HTTPDate.string(Self.example) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.string(.min) == "Sat, 01 Jan 0000 00:00:00 GMT")
        #expect(HTTPDate.string(.max) == "Fri, 31 Dec 9999 23:59:59 GMT")
    }

    @Test func `every day of four centuries survives a round trip`() {
        for day in Int64(0)..<150_000 {
            let date = Date(timeIntervalSince1970: TimeInterval(day * 86_400 + day % 86_400))
            #expect(HTTPDate.date(HTTPDate.string(date)) == date)
        }
    }

    @Test(
        arguments: [
            (0.999, "Thu, 01 Jan 1970 00:00:00 GMT"), (-0.5, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (-.infinity, "Sat, 01 Jan 0000 00:00:00 GMT"), (.infinity, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (.nan, "Sat, 01 Jan 0000 00:00:00 GMT"), (1e300, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] as [(Double, String)])
    func `every Date can be formatted`(seconds: Double, text: String) {
        #expect(HTTPDate.string(Date(timeIntervalSince1970: seconds)) == text)
    }

    @Test func `randomly damaged dates do not trap`() {
        var generator = SplitMix64.printingSeed()
        let forms = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        let pieces = Array("0123456789-+:, \u{0}é٣").map(String.init) + ["9223372036854775807", "-9223372036854775808"]
        for _ in 0..<20_000 {
            var text = Array((forms.randomElement(using: &generator) ?? "")).map(String.init)
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                text[.random(in: 0..<text.count, using: &generator)] = pieces.randomElement(using: &generator) ?? ""
            }
            guard let seconds = HTTPDate.parse(text.joined()) else { continue }
            #expect((-62_167_219_200...253_402_300_800).contains(seconds))
        }
    }
}
