#if GTK
import CGTK
import ConvoyImage
import ConvoyOperations
import Dispatch
import Foundation
import Synchronization

extension Widget {
    /// A closure that is called with the picture when it is shown, or with the error.
    public typealias ImageCompletion = @MainActor (_ result: Result<Image, any Error>) -> Void

    /// Loads the picture at a URL and shows it in a `GtkPicture` or a `GtkImage`. The counterpart
    /// of `setImageWithURL:placeholderImage:` of `UIImageView`. For more options, see
    /// ``setImage(_:placeholder:failure:transition:showsPreviews:by:completion:)``.
    @MainActor public func setImage(
        from url: URL, placeholder: PlaceholderImage = .empty, failure: PlaceholderImage? = nil,
        transition: ImageTransition = .none, by downloader: ImageDownloader = .default,
        completion: ImageCompletion? = nil
    ) {
        setImage(
            ImageRequest(url), placeholder: placeholder, failure: failure, transition: transition, by: downloader,
            completion: completion)
    }

    /// Loads a picture and shows it in a `GtkPicture` or a `GtkImage`.
    ///
    /// A new call ends the previous load of the widget without calling its completion, so that a
    /// reused cell shows only its own picture or placeholder. If the same request is still loading,
    /// its transfer continues. A picture in the memory cache is shown before this method returns.
    /// An animation plays while the widget is visible.
    ///
    /// - Parameters:
    ///   - request: The image to load. If the request has no size, the image is decoded as specified
    ///     by ``imageRequest(for:in:)``, and again when the widget grows or moves to a screen with
    ///     a larger scale factor.
    ///   - placeholder: The content shown while the picture loads.
    ///   - failure: The content shown after an error. Defaults to the placeholder.
    ///   - transition: The transition from the placeholder to a picture that was not in memory.
    ///   - showsPreviews: Whether to show coarse previews of a progressive JPEG as its bytes
    ///     arrive.
    ///   - downloader: The downloader that loads the image.
    ///   - completion: Called once, unless another call or ``cancelImage()`` ends this load or the
    ///     widget is destroyed. If the picture is in memory, it is called before this method
    ///     returns.
    @MainActor public func setImage(
        _ request: ImageRequest, placeholder: PlaceholderImage = .empty, failure: PlaceholderImage? = nil,
        transition: ImageTransition = .none, showsPreviews: Bool = false, by downloader: ImageDownloader = .default,
        completion: ImageCompletion? = nil
    ) {
        require(gtk_picture_get_type(), gtk_image_get_type())
        let binding = bound("image") ?? ImageBinding(self)
        if bound("image", as: ImageBinding.self) == nil { bind(binding, as: "image") }
        MainLoop.meter.measure {
            binding.set(
                ImageBinding.Job(
                    request: request, placeholder: placeholder, failure: failure ?? placeholder, transition: transition,
                    showsPreviews: showsPreviews, downloader: downloader), completion)
        }
    }

    /// Returns the request that ``setImage(_:placeholder:failure:transition:showsPreviews:by:completion:)`` sends for a
    /// widget at this moment, for example to prefetch the pictures that the widget will show.
    ///
    /// If the request has no size, the result has the allocated or requested size of the widget, in pixels of its
    /// screen, rounded up to a multiple of 64 so that widgets share their pictures. A length that is not known yet is
    /// that of the largest screen, which also limits the size. The content mode is `fill` if the
    /// widget is a `GtkPicture` that its picture covers.
    ///
    /// - Parameters:
    ///   - request: A request. If it has a size, it is returned unchanged.
    ///   - widget: A `GtkPicture` or a `GtkImage`.
    @MainActor public static func imageRequest(for request: ImageRequest, in widget: Widget) -> ImageRequest {
        widget.require(gtk_picture_get_type(), gtk_image_get_type())
        guard request.size == nil else { return request }
        let surface = PictureSurface(widget)
        var request = request
        request.size = surface.pixelSize
        request.contentMode = surface.isCovered ? .fill : .fit
        return request
    }

    /// Cancels the current load without calling its completion. The widget keeps its content. The
    /// counterpart of `cancelImageRequestOperation`.
    @MainActor public func cancelImage() {
        bound("image", as: ImageBinding.self)?.cancel()
    }

    /// Cancels the current load and clears the widget, for example when a cell scrolls out of view.
    @MainActor public func clearImage() {
        require(gtk_picture_get_type(), gtk_image_get_type())
        cancelImage()
        PictureSurface(self).show(nil)
    }

    /// Whether a picture is loading.
    @MainActor public var isLoadingImage: Bool { bound("image", as: ImageBinding.self)?.isLoading ?? false }
}
#endif
