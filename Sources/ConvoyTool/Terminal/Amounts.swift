import Foundation

/// Functions that format numbers for people.
enum Amounts {
    /// Formats a number of bytes, in powers of 1000: "999 B", "1.2 kB", "34.5 MB".
    static func bytes(_ count: Int64) -> String {
        guard count >= 1000 else { return "\(count) B" }
        var (value, unit) = (Double(count) / 1000, 0)
        let units = ["kB", "MB", "GB", "TB", "PB", "EB"]
        // From 999.95 on, the value would be rounded to 1000.0.
        while value >= 999.95, unit < units.count - 1 {
            value = value / 1000
            unit = unit + 1
        }
        return String(format: "%.1f ", value) + units[unit]
    }

    /// Returns a rate: "34.5 MB/s". Any number is accepted, because the elapsed time may be close to 0.
    static func speed(_ value: Double) -> String { bytes(value > 0 ? Int64(min(value, 9e18)) : 0) + "/s" }

    /// Returns an elapsed time: "0.034 s", "1.24 s", "2:05".
    static func seconds(_ value: Double) -> String {
        switch value {
        case ..<0.9995: String(format: "%.3f s", max(0, value))
        case ..<59.995: String(format: "%.2f s", value)
        default: clock(value)
        }
    }

    /// Returns a remaining time: "0:07", "12:34", "1:02:03".
    static func clock(_ value: Double) -> String {
        guard value.isFinite, value < 360_000 else { return "--:--" }
        let seconds = Int(value.rounded())
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60)
        let tail = String(format: "%02d", seconds % 60)
        return hours > 0 ? "\(hours):" + String(format: "%02d", minutes) + ":\(tail)" : "\(minutes):\(tail)"
    }
}

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
