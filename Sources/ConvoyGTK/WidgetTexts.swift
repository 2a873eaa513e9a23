#if GTK
import Foundation

/// The texts that this module shows or passes to assistive technologies. A program replaces them to translate them.
///
/// ```swift
/// Widget.texts.dismiss = "Schließen"
/// ```
public struct WidgetTexts: Sendable {
    /// The title of the button that closes an alert.
    public var dismiss = "Dismiss"
    /// The text of the row that a list shows while it is refreshed.
    public var loading = "Loading…"
    /// Returns the text for a picture that could not be loaded.
    public var imageFailure: @MainActor @Sendable (_ error: any Error) -> String = { error in
        "The picture could not be loaded: \(error.localizedDescription)"
    }

    /// Creates the English texts.
    public init() {}
}

extension Widget {
    /// The texts of all widgets.
    @MainActor public static var texts = WidgetTexts()
}
#endif
