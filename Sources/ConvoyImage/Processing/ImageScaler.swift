#if Images
import Foundation

/// A scaler that reduces an image row by row. Each pixel of the result is the mean of the source area that it covers.
///
/// Colours are weighted by alpha, so that transparent pixels contribute no colour. All sums are exact.
struct ImageScaler {
    private let source: ImageSize
    private let target: ImageSize
    private let hasAlpha: Bool
    /// The sums of the current target row, premultiplied if there is an alpha channel.
    private var sums: [UInt64]
    /// The sums of one source row.
    private var rowSums: [UInt64]
    private(set) var pixels: Data
    private var sourceRow = 0
    private var targetRow = 0

    /// Creates a scaler.
    ///
    /// - Parameters:
    ///   - source: The size of the source, at least as large as the target in both directions.
    ///   - target: The size of the result, at least one pixel.
    init(from source: ImageSize, to target: ImageSize, hasAlpha: Bool) {
        self.source = source
        self.target = target
        self.hasAlpha = hasAlpha
        let channels = hasAlpha ? 4 : 3
        sums = [UInt64](repeating: 0, count: target.width * channels)
        rowSums = sums
        pixels = Data(count: target.width * target.height * channels)
    }

    /// Returns the reduced image, or the image itself if it is not larger than the target.
    static func reduce(_ image: Image, to target: ImageSize) -> Image {
        let target = ImageSize(
            width: max(1, min(target.width, image.width)), height: max(1, min(target.height, image.height)))
        guard target != image.size else { return image }
        var scaler = ImageScaler(from: image.size, to: target, hasAlpha: image.hasAlpha)
        image.pixels.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            for row in 0..<image.height {
                let start = row * image.bytesPerRow
                scaler.add(UnsafeRawBufferPointer(rebasing: bytes[start..<(start + image.bytesPerRow)]))
            }
        }
        return Image(
            format: image.format, width: target.width, height: target.height, hasAlpha: image.hasAlpha,
            pixels: scaler.pixels)
    }

    /// Adds the next row of the source.
    mutating func add(_ row: UnsafeRawBufferPointer) {
        let isNarrower = target.width != source.width
        if hasAlpha { sumWithAlpha(row) } else if isNarrower { sum(row) } else { copy(row) }
        // Positions are in units in which a source row has the height of the target. A source row may overlap two
        // target rows.
        let top = sourceRow * target.height
        let bottom = top + target.height
        let end = (targetRow + 1) * source.height
        add(weight: UInt64(min(bottom, end) - top))
        if bottom >= end {
            finishRow()
            if bottom > end { add(weight: UInt64(bottom - end)) }
        }
        sourceRow += 1
    }

    private mutating func add(weight: UInt64) {
        sums.withUnsafeMutableBufferPointer { sums in
            rowSums.withUnsafeBufferPointer { row in
                for index in 0..<row.count { sums[index] &+= row[index] &* weight }
            }
        }
    }

    private mutating func copy(_ row: UnsafeRawBufferPointer) {
        rowSums.withUnsafeMutableBufferPointer { sums in
            let scale = UInt64(source.width)
            for index in 0..<min(sums.count, row.count) { sums[index] = UInt64(row[index]) &* scale }
        }
    }

    private mutating func sum(_ row: UnsafeRawBufferPointer) {
        let (source, target) = (source.width, target.width)
        rowSums.withUnsafeMutableBufferPointer { sums in
            var (x, offset) = (0, 0)
            // This is the left edge of the current pixel's area, in units in which a source pixel has the target's
            // width.
            var left = 0
            for column in 0..<target {
                let end = (column + 1) * source
                var red: UInt64 = 0
                var green: UInt64 = 0
                var blue: UInt64 = 0
                var start = column * source
                while start < end, x < source {
                    let right = left + target
                    let weight = UInt64(truncatingIfNeeded: min(right, end) - start)
                    red &+= UInt64(row[offset]) &* weight
                    green &+= UInt64(row[offset + 1]) &* weight
                    blue &+= UInt64(row[offset + 2]) &* weight
                    start = min(right, end)
                    if right <= end {
                        left = right
                        x = x + 1
                        offset = offset + 3
                    }
                }
                sums[column * 3] = red
                sums[column * 3 + 1] = green
                sums[column * 3 + 2] = blue
            }
        }
    }

    private mutating func sumWithAlpha(_ row: UnsafeRawBufferPointer) {
        let (source, target) = (source.width, target.width)
        rowSums.withUnsafeMutableBufferPointer { sums in
            var (x, offset, left) = (0, 0, 0)
            for column in 0..<target {
                let end = (column + 1) * source
                var red: UInt64 = 0
                var green: UInt64 = 0
                var blue: UInt64 = 0
                var alpha: UInt64 = 0
                var start = column * source
                while start < end, x < source {
                    let right = left + target
                    let weight = UInt64(truncatingIfNeeded: min(right, end) - start) &* UInt64(row[offset + 3])
                    red &+= UInt64(row[offset]) &* weight
                    green &+= UInt64(row[offset + 1]) &* weight
                    blue &+= UInt64(row[offset + 2]) &* weight
                    alpha &+= weight
                    start = min(right, end)
                    if right <= end {
                        left = right
                        x = x + 1
                        offset = offset + 4
                    }
                }
                sums[column * 4] = red
                sums[column * 4 + 1] = green
                sums[column * 4 + 2] = blue
                sums[column * 4 + 3] = alpha
            }
        }
    }

    /// Rounds the sums of a row to pixel values.
    private mutating func finishRow() {
        let area = UInt64(source.width) * UInt64(source.height)
        let count = sums.count
        let start = targetRow * count
        let hasAlpha = hasAlpha
        sums.withUnsafeMutableBufferPointer { sums in
            pixels.withUnsafeMutableBytes { (pixels: UnsafeMutableRawBufferPointer) in
                if hasAlpha {
                    for index in stride(from: 0, to: count, by: 4) {
                        let alpha = sums[index + 3]
                        for channel in 0..<3 {
                            pixels[start + index + channel] =
                                alpha == 0 ? 0 : UInt8((sums[index + channel] + alpha / 2) / alpha)
                        }
                        pixels[start + index + 3] = UInt8((alpha + area / 2) / area)
                    }
                } else {
                    for index in 0..<count { pixels[start + index] = UInt8((sums[index] + area / 2) / area) }
                }
                for index in 0..<count { sums[index] = 0 }
            }
        }
        targetRow += 1
    }
}
#endif
