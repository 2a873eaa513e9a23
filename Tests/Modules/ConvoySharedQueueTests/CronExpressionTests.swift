import Foundation
import Testing

@testable import ConvoySharedQueue

@Suite struct CronExpressionTests {
    private func zone(_ name: String) throws -> TimeZone { try #require(TimeZone(identifier: name)) }
    private func time(_ text: String) throws -> Int64 { Int64(try Date(text, strategy: .iso8601).timeIntervalSince1970) }

    @Test(arguments: [
        ("0 0 * * *", "UTC", "2026-11-29T12:00:00Z", ["2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"]),
        ("* * * * *", "UTC", "2026-11-29T12:00:00Z", ["2026-11-29T12:01:00Z", "2026-11-29T12:02:00Z"]),
        (
            "*/20 8-9 * * *", "UTC", "2026-11-29T09:10:00Z",
            ["2026-11-29T09:20:00Z", "2026-11-29T09:40:00Z", "2026-11-30T08:00:00Z"]
        ),
        ("30 9 * * mon-fri", "Europe/Berlin", "2026-11-27T09:00:00Z", ["2026-11-30T08:30:00Z", "2026-12-01T08:30:00Z"]),
        ("0 0 1,15 JAN *", "UTC", "2026-11-29T12:00:00Z", ["2027-01-01T00:00:00Z", "2027-01-15T00:00:00Z"]),
        ("0 0 29 2 *", "UTC", "2026-11-29T12:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        // If neither day is unrestricted, one of them must match.
        (
            "0 0 13 * 5", "UTC", "2026-11-01T00:00:00Z",
            ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"]
        ),
        (
            "0 0 13 12 fri", "UTC", "2026-12-01T00:00:00Z",
            ["2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"]
        ),
        ("0 0 */2 * 1", "UTC", "2026-11-01T00:00:00Z", ["2026-11-09T00:00:00Z", "2026-11-23T00:00:00Z"]),
        ("0 12 * * 7", "UTC", "2026-11-29T12:00:00Z", ["2026-12-06T12:00:00Z"]),
        ("@weekly", "UTC", "2026-11-29T12:00:00Z", ["2026-12-06T00:00:00Z"]),
        ("@Hourly", "UTC", "2026-11-29T12:30:00Z", ["2026-11-29T13:00:00Z"]),
        // The clocks in Berlin are set forward on 29 March at 2:00, and back on 25 October at 3:00.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        (
            "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"]
        ),
        (
            "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        ),
        // In Havana the clocks are set forward at midnight, and on Lord Howe by half an hour.
        ("30 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", ["2026-03-08T05:30:00Z", "2026-03-09T04:30:00Z"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", ["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"]),
        ("0 5 * * *", "Asia/Kathmandu", "2026-11-29T12:00:00Z", ["2026-11-29T23:15:00Z"]),
    ])
    func `an expression has these times`(_ text: String, _ name: String, _ start: String, _ expected: [String]) throws {
        let expression = try CronExpression(text), zone = try zone(name)
        var time = try time(start)
        for next in expected {
            time = try #require(expression.next(after: time, in: zone))
            #expect(time == (try self.time(next)), "\(Date(timeIntervalSince1970: Double(time)).formatted(.iso8601))")
        }
    }

    @Test func `the times are those at which the local calendar matches`() throws {
        var random = SystemRandomNumberGenerator()
        for name in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"] {
            var calendar = Calendar(identifier: .gregorian)
            calendar.timeZone = try zone(name)
            for _ in 0..<6 {
                let minute = Int.random(in: 0..<60, using: &random), day = Int.random(in: 0..<7, using: &random)
                let expression = try CronExpression("\(minute),\(59 - minute) * * * \(day)")
                var time = Int64.random(in: 1_700_000_000...1_900_000_000, using: &random) / 60 * 60
                let next = try #require(expression.next(after: time, in: calendar.timeZone))
                while true {
                    time += 60
                    let fields = calendar.dateComponents(
                        [.minute, .weekday], from: Date(timeIntervalSince1970: Double(time)))
                    let isMinute = fields.minute == minute || fields.minute == 59 - minute
                    if isMinute, fields.weekday == day + 1 { break }
                }
                #expect(next == time, "\(expression.text) in \(name)")
            }
        }
    }

    @Test(arguments: [
        "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 * ", "* * * * 8",
        "-1 * * * *", "5-1 * * * *", "*/0 * * * *", "*/61 * * * *", "1/2 * * * *", "a * * * *", "1,,2 * * * *", ", * * * *",
        "* * * * sunday", "* jan * * *", "@reboot", "1- * * * *", "-5 * * * *", "*-5 * * * *", "0 0 30 2 *", "0 0 31 4,6 *",
        "9999999999999999999999 * * * *", "* * * * mon-", "\u{661} * * * *", "*/ * * * *", "+1 * * * *",
    ])
    func `a malformed expression is an error`(_ text: String) throws {
        let error = #expect(throws: SharedQueueError.self) { try CronExpression(text) }
        guard case .invalidSchedule = error else { throw try #require(error) }
    }

    @Test(arguments: [Int64.min, -1, 250_000_000_001, .max])
    func `times outside the calendar have no next time`(_ time: Int64) throws {
        #expect(try CronExpression("* * * * *").next(after: time, in: .gmt) == nil)
    }
}
