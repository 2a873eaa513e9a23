import ConvoySupport
import Foundation

/// The encoder and decoder of a new manager. Dates are sent in the format of RFC 3339, as in JSON parameters
/// (``JSONDates/iso8601``).
extension JSONEncoder {
    /// Creates an encoder that writes dates as `2013-01-01T00:00:00Z`, with milliseconds if they are not 0.
    package static func withInternetDates() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .custom { date, encoder in
            guard let text = DateText.iso8601(date) else {
                throw EncodingError.invalidValue(
                    date,
                    .init(codingPath: encoder.codingPath, debugDescription: "The date is outside the years 1 to 9999."))
            }
            var container = encoder.singleValueContainer()
            try container.encode(text)
        }
        return encoder
    }
}

extension JSONDecoder {
    /// Creates a decoder that accepts dates in the format of RFC 3339, and numbers of seconds since 2001, which a plain
    /// `JSONDecoder` expects.
    package static func acceptingInternetDates() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            if let seconds = try? container.decode(Double.self) { return Date(timeIntervalSinceReferenceDate: seconds) }
            let text = try container.decode(String.self)
            guard let date = (try? withoutFraction.parse(text)) ?? (try? withFraction.parse(text)) else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "The date is not in the format of RFC 3339.")
            }
            return date
        }
        return decoder
    }

    private static let withoutFraction = Date.ISO8601FormatStyle()
    private static let withFraction = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
}
