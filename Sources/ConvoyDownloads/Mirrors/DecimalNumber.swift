import ConvoySupport

/// Numbers as documents write them.
enum DecimalNumber {
    /// The number of ASCII digits without a sign; nil for anything else, and for a number that does not fit.
    static func parse(_ digits: some Collection<UInt8>) -> Int64? {
        guard !digits.isEmpty else { return nil }
        var value: Int64 = 0
        for digit in digits {
            guard ASCII.isDigit(digit) else { return nil }
            let (product, hasOverflown) = value.multipliedReportingOverflow(by: 10)
            let (sum, hasOverflownToo) = product.addingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
            guard !hasOverflown, !hasOverflownToo else { return nil }
            value = sum
        }
        return value
    }
}
