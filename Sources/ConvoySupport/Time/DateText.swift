import Foundation

/// Dates as text. A formatter takes 25 to 70 microseconds per date and is a shared object; this takes a third of a
/// microsecond.
package enum DateText {
    /// `2013-01-01 00:00:00 +0000`, as in `NSDate`'s description; nil if the year is outside 1…9999.
    package static func description(of date: Date) -> String? {
        guard let (fields, _) = fields(of: date, rounded: .down) else { return nil }
        return fields.text("%04Y-%m-%d %H:%M:%S +0000")
    }

    /// RFC 3339 in UTC, `2013-01-01T00:00:00Z`, with milliseconds only if they are not 0; nil if the year is outside
    /// 1…9999.
    package static func iso8601(_ date: Date) -> String? {
        guard let (fields, millisecond) = fields(of: date, rounded: .toNearestOrEven) else { return nil }
        let fraction = millisecond == 0 ? "" : "." + String(1000 + millisecond).dropFirst()
        return fields.text("%04Y-%m-%dT%H:%M:%S\(fraction)Z")
    }

    /// The fields of a date, and its milliseconds.
    private static func fields(
        of date: Date, rounded rule: FloatingPointRoundingRule
    ) -> (fields: UTCFields, millisecond: Int64)? {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded(rule)
        // A comparison with NaN is false, so NaN is refused here too.
        guard abs(milliseconds) < 1e15 else { return nil }
        let total = Int64(milliseconds)
        let second = Int64((milliseconds / 1000).rounded(.down))
        guard UTCFields.seconds.contains(second), let fields = UTCFields(second) else { return nil }
        return (fields, total - second * 1000)
    }
}
