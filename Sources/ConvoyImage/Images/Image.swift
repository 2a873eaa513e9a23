#if Images
import Foundation

/// A decoded image: its pixels, and how they lie in memory.
///
/// Rows go from the top down, with no padding between them. Copying the value does not copy the pixels.
public struct Image: Sendable, Equatable {
    /// What the body was.
    public let format: ImageFormat
    /// Pixels in a row.
    public let width: Int
    /// Rows.
    public let height: Int
    /// Whether the fourth byte of a pixel is its alpha, not premultiplied.
    public let hasAlpha: Bool
    /// The samples: red, green, blue and, where there is one, alpha; `height` times ``bytesPerRow`` bytes.
    public let pixels: Data

    /// Bytes in a pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// 8. Deeper images are reduced.
    public var bitsPerSample: Int { 8 }
    /// Bytes from a row to the next.
    public var bytesPerRow: Int { width * channels }
}

/// The image formats that are decoded, and no other, whatever loaders are installed.
public enum ImageFormat: String, Sendable, Hashable, CaseIterable {
    case png, jpeg, gif, bmp, ico, tiff, xbm
}
#endif
