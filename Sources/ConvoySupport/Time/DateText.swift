import Foundation

/// Dates as text, worked out by hand: a formatter costs 25 to 70 microseconds a date and is a shared object.
package enum DateText {
    /// `2013-01-01 00:00:00 +0000`, as `NSDate` describes itself; nil when the year is outside 1…9999.
    package static func description(of date: Date) -> String? {
        guard let parts = Parts(date, roundedToMilliseconds: false) else { return nil }
        return "\(parts.day) \(parts.time) +0000"
    }

    /// RFC 3339 in UTC, `2013-01-01T00:00:00Z`, with milliseconds only where there are some; nil when the year is
    /// outside 1…9999.
    package static func iso8601(_ date: Date) -> String? {
        guard let parts = Parts(date, roundedToMilliseconds: true) else { return nil }
        let fraction = parts.millisecond == 0 ? "" : "." + zeroPadded(parts.millisecond, 3)
        return "\(parts.day)T\(parts.time)\(fraction)Z"
    }

    private struct Parts {
        let day: String
        let time: String
        let millisecond: Int

        init?(_ date: Date, roundedToMilliseconds rounds: Bool) {
            let seconds = date.timeIntervalSince1970
            // 0001-01-01 to 9999-12-31. A comparison with NaN is false, so it is refused here too.
            guard seconds >= -62_135_596_800, seconds < 253_402_300_800 else { return nil }
            let milliseconds = (seconds * 1000).rounded(rounds ? .toNearestOrEven : .down)
            guard milliseconds < 253_402_300_800_000 else { return nil }
            let total = Int64(milliseconds)
            let wholeSeconds = floorDivide(total, 1000)
            millisecond = Int(total - wholeSeconds * 1000)
            let days = floorDivide(wholeSeconds, 86_400)
            let second = Int(wholeSeconds - days * 86_400)
            let civil = Parts.civil(fromDays: days)
            day = "\(zeroPadded(civil.year, 4))-\(zeroPadded(civil.month, 2))-\(zeroPadded(civil.day, 2))"
            time = "\(zeroPadded(second / 3600, 2)):\(zeroPadded(second / 60 % 60, 2)):\(zeroPadded(second % 60, 2))"
        }

        /// The Gregorian date of a day counted from 1970-01-01, over eras of 400 years that begin on 1 March, so
        /// that the leap day is the last of its year.
        private static func civil(fromDays days: Int64) -> (year: Int, month: Int, day: Int) {
            let shifted = days + 719_468
            let era = floorDivide(shifted, 146_097)
            let dayOfEra = Int(shifted - era * 146_097)
            let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
            let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
            let shiftedMonth = (5 * dayOfYear + 2) / 153
            let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
            let year = yearOfEra + Int(era) * 400 + (month <= 2 ? 1 : 0)
            return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
        }
    }
}

private func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
    value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor)
}

/// A number from 0 on with so many digits at least.
func zeroPadded(_ number: Int, _ digits: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
