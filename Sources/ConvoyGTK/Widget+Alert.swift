#if GTK
import CGTK
import ConvoyOperations
import Foundation

extension Widget {
    /// Shows an alert over a `GtkWindow` if an operation fails. The counterpart of
    /// `showAlertViewForRequestOperationWithErrorOnCompletion:delegate:` of `UIAlertView`.
    ///
    /// The title is the error's description. The text is its recovery suggestion or, if that is
    /// missing, its failure reason, without what repeats the title. A cancelled operation shows no alert. A window shows only one
    /// alert; others wait until the user closes it, and identical alerts are shown once.
    ///
    /// - Parameters:
    ///   - operation: The operation, which is not retained. If the window has been destroyed when the operation fails,
    ///     no alert appears.
    ///   - button: The title of the button that closes the alert; nil for ``WidgetTexts/dismiss``.
    @MainActor public func showAlert(onErrorOf operation: URLConnectionOperation, button: String? = nil) {
        alertBinding().follow(operation, button ?? Self.texts.dismiss)
    }

    /// Shows an alert over a `GtkWindow` if a session task fails.
    @_disfavoredOverload
    @MainActor public func showAlert(onErrorOf request: some HTTPRequestHandle, button: String? = nil) {
        showAlert(onErrorOf: request.operation as URLConnectionOperation, button: button)
    }

    /// Shows an alert over a `GtkWindow` for any error.
    @MainActor public func showAlert(for error: any Error, button: String? = nil) {
        alertBinding().show(error, button ?? Self.texts.dismiss)
    }

    @MainActor private func alertBinding() -> AlertBinding {
        require(gtk_window_get_type())
        if let binding: AlertBinding = bound("alert") { return binding }
        let binding = AlertBinding(self)
        bind(binding, as: "alert")
        return binding
    }
}

@MainActor private final class AlertBinding: WidgetBinding {
    private struct Alert: Hashable {
        var title: String
        var text: String?
        var button: String
    }

    /// The maximum number of waiting alerts. An unreachable server can fail hundreds of operations, each with a
    /// different message.
    private static let maximumWaitingCount = 8

    private var shown: Alert?
    private var dialog: ObjectReference?
    private var waiting: [Alert] = []
    private var observations: [ObjectIdentifier: OperationObservation] = [:]

    func follow(_ operation: URLConnectionOperation, _ button: String) {
        let key = ObjectIdentifier(operation)
        let observation = operation.observe(.state) { [weak self] operation, change in
            guard change.newValue == .finished else { return }
            let error = operation.error
            MainInbox.post { self?.finish(key, error, button) }
        }
        observations[key] = observation
        if operation.isFinished { finish(key, operation.error, button) }
    }

    private func finish(_ key: ObjectIdentifier, _ error: (any Error)?, _ button: String) {
        guard observations.removeValue(forKey: key) != nil else { return }
        if let error, (error as? URLError)?.code != .cancelled { show(error, button) }
    }

    func show(_ error: any Error, _ button: String) {
        let known = error as NSError
        let title = known.localizedDescription
        let text = [known.localizedRecoverySuggestion, known.localizedFailureReason].lazy.compactMap(\.self)
            .map { Self.text($0, after: title) }.first { !$0.isEmpty }
        let alert = Alert(
            title: Self.printable(title.isEmpty ? "\(known.domain) error \(known.code)" : title),
            text: text.map(Self.printable), button: button)
        guard alert != shown, !waiting.contains(alert), waiting.count < Self.maximumWaitingCount else { return }
        waiting.append(alert)
        showNext()
    }

    /// Returns a text without a title with which it begins. The failure reason of a `URLError` begins with its description.
    private static func text(_ text: String, after title: String) -> String {
        guard !title.isEmpty, text.hasPrefix(title) else { return text }
        let rest = text.dropFirst(title.count)
        // A longer word may begin with the title.
        guard rest.first.map({ $0.isWhitespace || $0 == "." }) ?? true else { return text }
        return String(rest.drop { $0.isWhitespace || $0 == "." })
    }

    private func showNext() {
        guard shown == nil, !waiting.isEmpty else { return }
        let alert = waiting.removeFirst()
        let parent = widget.pointer.assumingMemoryBound(to: GtkWindow.self)
        guard let made = convoy_alert(parent, alert.title, alert.text, alert.button) else { return }
        shown = alert
        let dialog = Widget(made)
        self.dialog = ObjectReference(retaining: dialog.pointer)
        Signal.connect(dialog.pointer, "response") { [weak self] _ in self?.close() }
        gtk_window_present(dialog.pointer.assumingMemoryBound(to: GtkWindow.self))
    }

    private func close() {
        let old = dialog
        shown = nil
        dialog = nil
        if let old { gtk_window_destroy(old.pointer.assumingMemoryBound(to: GtkWindow.self)) }
        showNext()
    }

    /// Replaces NUL characters, which C strings cannot contain, and limits the length to what fits
    /// a window.
    private static func printable(_ text: String) -> String {
        String(text.prefix(2000)).replacingOccurrences(of: "\0", with: "\u{FFFD}")
    }

    override func end() {
        // GTK destroys the dialog together with its window.
        waiting = []
        shown = nil
        dialog = nil
        observations = [:]
        super.end()
    }
}
#endif
