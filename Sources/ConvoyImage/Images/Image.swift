#if Images
import Foundation

/// A decoded image: its pixels, and their layout in memory.
///
/// Rows are stored from top to bottom, without padding. Copying the value does not copy the pixels.
public struct Image: Sendable, Equatable {
    /// The format of the body.
    public let format: ImageFormat
    /// The number of pixels per row.
    public let width: Int
    /// The number of rows.
    public let height: Int
    /// Whether pixels have a fourth byte: their alpha, not premultiplied.
    public let hasAlpha: Bool
    /// The samples: red, green, blue and, if there is one, alpha; `height` times ``bytesPerRow`` bytes.
    public let pixels: Data

    /// The number of bytes per pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// 8. Deeper images are converted.
    public var bitsPerSample: Int { 8 }
    /// The number of bytes per row.
    public var bytesPerRow: Int { width * channels }
}

/// The supported image formats, whatever loaders are installed.
public enum ImageFormat: String, Sendable, Hashable, CaseIterable {
    case png, jpeg, gif, bmp, ico, tiff, xbm
}
#endif
