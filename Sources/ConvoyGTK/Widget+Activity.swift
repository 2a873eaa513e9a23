#if GTK
import CGTK
import ConvoyDiagnostics
import ConvoyOperations
import Foundation

extension Widget {
    /// Spins a `GtkSpinner` while an operation is running. The counterpart of
    /// `setAnimatingWithStateOfOperation:` of `UIActivityIndicatorView`, with the rules of
    /// `ActivityView`.
    ///
    /// - Returns: The binding. You need not keep it: it ends with the operation or with the
    ///   spinner.
    @MainActor @discardableResult
    public func setAnimatingWithState(of operation: URLConnectionOperation) -> ViewBinding {
        require(gtk_spinner_get_type())
        let spinner = SpinnerBinding(self)
        bind(spinner, as: "activity")
        return spinner.follow(operation)
    }

    /// Spins a `GtkSpinner` while a session task is running.
    @_disfavoredOverload
    @MainActor @discardableResult
    public func setAnimatingWithState(of request: some HTTPRequestHandle) -> ViewBinding {
        setAnimatingWithState(of: request.operation as URLConnectionOperation)
    }

    /// Spins a `GtkSpinner` until a batch has finished.
    @MainActor public func setAnimatingWithState(of batch: BatchOperation) {
        require(gtk_spinner_get_type())
        let spinner = SpinnerBinding(self)
        bind(spinner, as: "activity")
        spinner.follow(batch.transferProgressUpdates.lazyMap { _ in true }, isOnAfterEnd: false)
    }

    /// Spins a `GtkSpinner` while the program uses the network. `NetworkActivityMonitor` reports
    /// this as long as its `isEnabled` is set. The counterpart of the network activity indicator.
    @MainActor public func setAnimatingWithNetworkActivity(of monitor: NetworkActivityMonitor = .shared) {
        require(gtk_spinner_get_type())
        let spinner = SpinnerBinding(self)
        bind(spinner, as: "activity")
        spinner.follow(monitor.activityUpdates, isOnAfterEnd: false)
    }

    /// Shows a row with a spinner in a `GtkListBox` while an operation is running. The counterpart
    /// of `setRefreshingWithStateOfOperation:` of `UIRefreshControl`.
    ///
    /// - Parameters:
    ///   - operation: The operation that refreshes the list or loads more rows.
    ///   - label: The text that assistive technologies read, shown beside the spinner; nil for
    ///     ``WidgetTexts/loading``.
    ///   - position: The index of the row; -1 for the end of the list.
    /// - Returns: The binding. You need not keep it.
    @MainActor @discardableResult
    public func setRefreshingWithState(
        of operation: URLConnectionOperation, label: String? = nil, at position: Int = 0
    ) -> ViewBinding {
        require(gtk_list_box_get_type())
        let row = RefreshBinding(self, label: label ?? Self.texts.loading, position: Int32(clamping: position))
        bind(row, as: "refresh")
        return row.follow(operation)
    }

    /// Shows a row with a spinner in a `GtkListBox` while a session task is running.
    @_disfavoredOverload
    @MainActor @discardableResult
    public func setRefreshingWithState(
        of request: some HTTPRequestHandle, label: String? = nil, at position: Int = 0
    ) -> ViewBinding {
        setRefreshingWithState(of: request.operation as URLConnectionOperation, label: label, at: position)
    }

    /// Sets a closure that is called when the user pulls the content of a `GtkScrolledWindow` beyond its top, by touch
    /// or by kinetic scrolling. Pass nil to remove the closure. Use it to refresh a list, and provide a button as well
    /// for mice and keyboards.
    @MainActor public func setPullHandler(_ handler: (@MainActor () -> Void)?) {
        require(gtk_scrolled_window_get_type())
        bind(handler.map { PullBinding(self, $0) }, as: "pull")
    }
}

/// A binding that follows the activity of an operation.
@MainActor private class ActivityBinding: WidgetBinding, ActivityView {
    private var operationBinding: ViewBinding?
    private var updates: Task<Void, Never>?

    nonisolated final func startAnimating() { MainActor.assumeIsolated { setActive(true) } }
    nonisolated final func stopAnimating() { MainActor.assumeIsolated { setActive(false) } }

    func setActive(_ isActive: Bool) {}

    final func follow(_ operation: URLConnectionOperation) -> ViewBinding {
        setActive(false)
        let binding = (self as any ActivityView).setAnimatingWithState(of: operation)
        operationBinding = binding
        return binding
    }

    final func follow(_ stream: some AsyncSequence<Bool, Never> & Sendable, isOnAfterEnd: Bool) {
        updates = Task { @MainActor [weak self] in
            for await isActive in stream { self?.setActive(isActive) }
            self?.setActive(isOnAfterEnd)
        }
    }

    override func end() {
        operationBinding?.invalidate()
        updates?.cancel()
        operationBinding = nil
        updates = nil
        super.end()
    }
}

@MainActor private final class SpinnerBinding: ActivityBinding {
    override func setActive(_ isActive: Bool) {
        gtk_spinner_set_spinning(widget.opaque, isActive ? 1 : 0)
        convoy_set_busy(widget.widget, isActive ? 1 : 0)
    }
}

@MainActor private final class RefreshBinding: ActivityBinding {
    private let label: String
    private let position: Int32
    private var row: ObjectReference?

    init(_ widget: Widget, label: String, position: Int32) {
        self.label = label
        self.position = position
        super.init(widget)
    }

    override func setActive(_ isActive: Bool) {
        convoy_set_busy(widget.widget, isActive ? 1 : 0)
        if isActive { insert() } else { remove() }
    }

    private func insert() {
        guard row == nil, let made = gtk_list_box_row_new(), let box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 12),
            let spinner = gtk_spinner_new(), let text = gtk_label_new(label)
        else { return }
        let row = Widget(made)
        self.row = ObjectReference(taking: convoy_ref_sink(row.pointer))
        gtk_spinner_start(Widget(spinner).opaque)
        let boxPointer = Widget(box).pointer.assumingMemoryBound(to: GtkBox.self)
        gtk_box_append(boxPointer, spinner)
        gtk_box_append(boxPointer, text)
        gtk_widget_set_halign(box, GTK_ALIGN_CENTER)
        for set in [gtk_widget_set_margin_top, gtk_widget_set_margin_bottom] { set(box, 12) }
        let rowPointer = row.pointer.assumingMemoryBound(to: GtkListBoxRow.self)
        gtk_list_box_row_set_child(rowPointer, box)
        gtk_list_box_row_set_selectable(rowPointer, 0)
        gtk_list_box_row_set_activatable(rowPointer, 0)
        convoy_set_label(row.widget, label)
        gtk_list_box_insert(widget.opaque, row.widget, position)
    }

    private func remove() {
        guard let held = row else { return }
        row = nil
        // The program may have removed the row in the meantime.
        let row = Widget(held.pointer)
        if gtk_widget_get_parent(row.widget) == widget.widget { gtk_list_box_remove(widget.opaque, row.widget) }
    }

    override func end() {
        // A list that is being destroyed has already released its rows.
        remove()
        super.end()
    }
}

@MainActor private final class PullBinding: WidgetBinding {
    init(_ widget: Widget, _ handler: @escaping @MainActor () -> Void) {
        super.init(widget)
        connectArgument("edge-overshot") { edge in
            if UInt32(truncatingIfNeeded: UInt(bitPattern: edge)) == GTK_POS_TOP.rawValue { handler() }
        }
    }
}

extension AsyncSequence where Self: Sendable, Failure == Never {
    fileprivate func lazyMap<Value>(_ transform: @escaping @Sendable (Element) -> Value) -> AsyncMapSequence<Self, Value> {
        map { transform($0) }
    }
}
#endif
