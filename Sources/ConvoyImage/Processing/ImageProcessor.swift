#if Images
/// Makes another image of an image: a filter, for example.
public protocol ImageProcessor: Sendable {
    /// What the processor does, in text that differs from that of any other processor, or of the same with other
    /// values. Processed images are cached by it.
    var identifier: String { get }

    /// The processed image. Called on a thread that decodes images, which it may block for a while.
    func process(_ image: Image) throws -> Image
}
#endif
