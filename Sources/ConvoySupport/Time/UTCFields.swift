import Foundation

/// A second as its fields in the Gregorian calendar and UTC. The C library does the reckoning.
struct UTCFields {
    private var fields: tm

    /// 0001-01-01 to 9999-12-31, the years that fit into four digits and that every format has.
    static let seconds: Range<Int64> = -62_135_596_800..<253_402_300_800

    /// The fields of a second counted from 1970.
    init?(_ seconds: Int64) {
        var time = time_t(seconds)
        fields = tm()
        guard gmtime_r(&time, &fields) != nil else { return nil }
    }

    var year: Int { Int(fields.tm_year) + 1900 }
    /// From 0 on.
    var month: Int { Int(fields.tm_mon) }
    /// Sunday is 0.
    var weekday: Int { Int(fields.tm_wday) }

    /// The second in which a day begins; nil for a day that its month does not have, which `timegm` takes for one of
    /// the next month.
    static func midnight(year: Int32, month: Int32, day: Int32) -> Int64? {
        var fields = tm()
        fields.tm_year = year - 1900
        fields.tm_mon = month
        fields.tm_mday = day
        let midnight = timegm(&fields)
        return fields.tm_mday == day && fields.tm_mon == month ? Int64(midnight) : nil
    }

    /// The same second so many years later.
    func adding(years: Int32) -> Int64 {
        var fields = fields
        fields.tm_year += years
        return Int64(timegm(&fields))
    }

    /// The text of a format of `strftime`, of 63 bytes at most. Names of days and months would be in the language of
    /// the process, so that only numbers may stand in it.
    func text(_ format: String) -> String {
        var fields = fields
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
            guard let start = buffer.baseAddress, strftime(start, 64, format, &fields) > 0 else { return "" }
            return String(cString: start)
        }
    }
}
