import Foundation

/// The fields of a time in UTC and the Gregorian calendar. The C library computes them.
struct UTCFields {
    private var fields: tm

    /// 0001-01-01 to 9999-12-31, the years that every format supports.
    static let seconds: Range<Int64> = -62_135_596_800..<253_402_300_800

    /// The fields of a time in seconds since 1970.
    init?(_ seconds: Int64) {
        var time = time_t(seconds)
        fields = tm()
        guard gmtime_r(&time, &fields) != nil else { return nil }
    }

    var year: Int { Int(fields.tm_year) + 1900 }
    /// January is 0.
    var month: Int { Int(fields.tm_mon) }
    /// Sunday is 0.
    var weekday: Int { Int(fields.tm_wday) }

    /// The time at which a day begins; nil for a day that its month does not have, which `timegm` would move to the
    /// next month.
    static func midnight(year: Int32, month: Int32, day: Int32) -> Int64? {
        var fields = tm()
        fields.tm_year = year - 1900
        fields.tm_mon = month
        fields.tm_mday = day
        let midnight = timegm(&fields)
        return fields.tm_mday == day && fields.tm_mon == month ? Int64(midnight) : nil
    }

    /// The time the given number of years later.
    func adding(years: Int32) -> Int64 {
        var fields = fields
        fields.tm_year += years
        return Int64(timegm(&fields))
    }

    /// Formats with `strftime`, to at most 63 bytes. Only numeric fields may be used, as names would be in the
    /// process's language.
    func text(_ format: String) -> String {
        var fields = fields
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
            guard let start = buffer.baseAddress, strftime(start, 64, format, &fields) > 0 else { return "" }
            return String(cString: start)
        }
    }
}
