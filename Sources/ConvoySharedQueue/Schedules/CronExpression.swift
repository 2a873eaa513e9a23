import ConvoySupport
import Foundation

/// The times of a periodic entry, in the format of `crontab`: minute, hour, day of the month, month, and day of the week.
///
/// ```swift
/// let workdays = try CronExpression("30 9 * * mon-fri")
/// ```
///
/// A field is `*`, a number, a range (`1-5`) or a list of those, each optionally with a step (`*/15`, `8-18/2`). Months and
/// days of the week may be names of three letters; 0 and 7 are Sunday. If neither day begins with `*`, one of them must
/// match, otherwise both. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are abbreviations.
///
/// If the clocks of the time zone are set forward, a time that does not exist is moved forward by the same amount. If they
/// are set back, a time occurs once, unless the hour is `*`.
public struct CronExpression: Sendable, Hashable {
    /// The expression as given.
    public let text: String
    /// The numbers that match, as bits.
    private let minutes, hours, days, months, weekdays: UInt64
    /// Whether a day must match both fields, because one of them begins with `*`.
    private let matchesBothDays: Bool

    private static let abbreviations = [
        "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
    ]
    private static let monthNames = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]
    private static let weekdayNames = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

    /// Parses an expression.
    ///
    /// - Throws: ``SharedQueueError/invalidSchedule(_:)`` if the expression is malformed or never matches.
    public init(_ text: String) throws(SharedQueueError) {
        self.text = text
        let expanded = Self.abbreviations[text.lowercased()] ?? text
        let fields = expanded.split(whereSeparator: \.isWhitespace).map(String.init)
        guard fields.count == 5 else {
            throw .invalidSchedule(
                "\(text.debugDescription) is not a cron expression: use five fields, such as \"30 9 * * 1-5\".")
        }
        minutes = try Self.field(fields[0], "minute", 0...59)
        hours = try Self.field(fields[1], "hour", 0...23)
        days = try Self.field(fields[2], "day of the month", 1...31)
        months = try Self.field(fields[3], "month", 1...12, names: Self.monthNames, first: 1)
        let weekdays = try Self.field(fields[4], "day of the week", 0...7, names: Self.weekdayNames, first: 0)
        self.weekdays = weekdays | weekdays >> 7 & 1
        matchesBothDays = fields[2].hasPrefix("*") || fields[4].hasPrefix("*")
        guard next(after: 0, in: .gmt) != nil else {
            throw .invalidSchedule("The day \(fields[2]) of the month \(fields[3]) never occurs.")
        }
    }

    // MARK: Parsing

    private static func field(
        _ text: String, _ name: String, _ range: ClosedRange<Int>, names: [String] = [], first: Int = 0
    ) throws(SharedQueueError) -> UInt64 {
        var bits: UInt64 = 0
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
            let ends = parts[0].split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            func number(_ text: Substring) -> Int? {
                if let index = names.firstIndex(of: text.lowercased()) { return index + first }
                guard !text.isEmpty, text.utf8.allSatisfy({ ASCII.isDigit($0) }) else { return nil }
                return Int(text).flatMap { range.contains($0) ? $0 : nil }
            }
            let lower = parts[0] == "*" ? range.lowerBound : number(ends[0])
            let upper = parts[0] == "*" ? range.upperBound : ends.count == 2 ? number(ends[1]) : lower
            let step = parts.count == 2 ? Int(parts[1]).flatMap { 1...60 ~= $0 ? $0 : nil } : 1
            let mayHaveStep = parts[0] == "*" || ends.count == 2
            guard let lower, let upper, let step, lower <= upper, parts.count == 1 || mayHaveStep else {
                throw .invalidSchedule(
                    "Invalid \(name) \(text.debugDescription): use numbers from \(range.lowerBound) to \(range.upperBound), "
                        + "ranges such as \(range.lowerBound)-\(range.upperBound), and steps such as */2.")
            }
            for value in stride(from: lower, through: upper, by: step) { bits |= 1 << UInt64(value) }
        }
        return bits
    }

    // MARK: Times

    /// The number of days to search: leap days are at most eight years apart.
    private static let longestSearch: Int64 = 9 * 366
    private static let day: Int64 = 86_400

    /// Returns the first time after another one, in seconds since 1970; nil if there is none within nine years.
    func next(after time: Int64, in zone: TimeZone) -> Int64? {
        guard 0...250_000_000_000 ~= time else { return nil }
        let today = (time + Self.offset(at: time, zone)) / Self.day
        // A time before midnight that does not exist is moved to the next day.
        for day in today - 1...today + Self.longestSearch where matches(day) {
            if let next = first(after: time, onDay: day, zone) { return next }
        }
        return nil
    }

    private static func offset(at time: Int64, _ zone: TimeZone) -> Int64 {
        Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time))))
    }

    /// Returns whether the expression matches a day, as a number of days since 1970 in the time zone.
    private func matches(_ day: Int64) -> Bool {
        guard let fields = UTCFields(day * Self.day) else { return false }
        func contains(_ bits: UInt64, _ value: Int) -> Bool { bits >> UInt64(value) & 1 == 1 }
        guard contains(months, fields.month + 1) else { return false }
        let (isDay, isWeekday) = (contains(days, fields.day), contains(weekdays, fields.weekday))
        return matchesBothDays ? isDay && isWeekday : isDay || isWeekday
    }

    private func first(after time: Int64, onDay day: Int64, _ zone: TimeZone) -> Int64? {
        let midnight = day * Self.day
        let before = Self.offset(at: midnight - Self.day, zone), after = Self.offset(at: midnight + 2 * Self.day, zone)
        var first: Int64?
        for hour in 0..<24 where hours >> UInt64(hour) & 1 == 1 {
            for minute in 0..<60 where minutes >> UInt64(minute) & 1 == 1 {
                let local = midnight + Int64(hour * 3600 + minute * 60)
                for candidate in before == after ? [local - before] : times(of: local, before, after, zone) {
                    if candidate > time, candidate < first ?? .max { first = candidate }
                }
            }
        }
        return first
    }

    /// Returns the times at which clocks that are changed on that day show a local time.
    private func times(of local: Int64, _ before: Int64, _ after: Int64, _ zone: TimeZone) -> [Int64] {
        let found = [local - max(before, after), local - min(before, after)].filter {
            Self.offset(at: $0, zone) == local - $0
        }
        guard let first = found.first else { return [local - before] }
        return hours == 0xFF_FFFF ? found : [first]
    }
}
