#if GTK
import CGTK
import Convoy
import ConvoyGTK
import ConvoyImage
import Foundation
import FoundationNetworking

private let darkTheme = "gtk-application-prefer-dark-theme"

/// The application: a window with a grid of pictures, a viewer and the downloads.
@MainActor final class Gallery {
    private let options: GalleryOptions
    private let manager: HTTPRequestOperationManager
    private let downloader: ImageDownloader
    private let prefetcher: ImagePrefetcher
    private let reachability: NetworkReachabilityManager
    private let application = gtk_application_new("convoy.Gallery", G_APPLICATION_NON_UNIQUE)!
    private var shown = 0
    private var window: WidgetPointer!
    private var stack: WidgetPointer!
    private var grid: PictureGrid!
    private var viewer: WidgetPointer!
    private var viewerMessage: WidgetPointer!
    private var titleLabel: WidgetPointer!
    private var subtitleLabel: WidgetPointer!
    private var spinner: WidgetPointer!
    private var status: StatusPage!
    private var backButton: WidgetPointer!
    private var banner: WidgetPointer!
    private var downloads: DownloadList!

    init(_ options: GalleryOptions) {
        self.options = options
        manager = HTTPRequestOperationManager()
        manager.maxConcurrentOperationCount = options.jobs
        manager.maxConcurrentOperationCountPerHost = options.jobs
        manager.receiveRateLimit = RateLimit()
        manager.retryPolicy = RetryPolicy()
        let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        manager.cache = caches.flatMap { try? HTTPCache(directory: $0.appendingPathComponent("convoy-gallery")) }
        var configuration = ImageDownloader.Configuration()
        configuration.maximumActiveDownloads = 16
        configuration.prioritization = .lifo
        downloader = ImageDownloader(manager: manager, configuration: configuration)
        prefetcher = ImagePrefetcher(downloader: downloader)
        let host = options.url.host ?? ""
        reachability = NetworkReachabilityManager(address: host) ?? NetworkReachabilityManager(domain: host)
    }

    func run() -> Int32 {
        MainLoop.install()
        if let isDark = options.isDark { convoy_set_settings_flag(darkTheme, isDark ? 1 : 0) }
        Toolkit.connect(application, "activate") { [self] _ in open() }
        let program = UnsafeMutableRawPointer(application).assumingMemoryBound(to: GApplication.self)
        return g_application_run(program, 0, nil)
    }

    private func open() {
        downloads = DownloadList(in: options.downloads, manager)
        window = gtk_application_window_new(application)!
        gtk_window_set_default_size(window.of(), Int32(options.width), Int32(options.height))
        gtk_window_set_titlebar(window.of(), makeHeader())

        stack = gtk_stack_new()!.expanding()
        gtk_stack_set_transition_type(stack.opaque, GTK_STACK_TRANSITION_TYPE_CROSSFADE)
        grid = PictureGrid(downloader) { [self] position in view(position) }
        status = StatusPage(button: "Try Again") { [self] in loadList() }
        for (page, name) in [(grid.widget, "grid"), (makeViewer(), "viewer"), (status.widget, "status")] {
            gtk_stack_add_named(stack.opaque, page, name)
        }
        banner = makeBanner()
        let content = Toolkit.box(GTK_ORIENTATION_VERTICAL, spacing: 0).add(banner, stack, downloads.revealer)
        gtk_window_set_child(window.of(), content)

        addActions()
        show("grid")
        watchNetwork()
        loadList()
        gtk_window_present(window.of())
    }

    // MARK: The window

    private func makeHeader() -> WidgetPointer {
        let header = gtk_header_bar_new()!
        titleLabel = Toolkit.label(options.url.host ?? "")
        subtitleLabel = Toolkit.label("")
        for (label, style) in [(titleLabel!, "title"), (subtitleLabel!, "subtitle")] {
            gtk_label_set_xalign(label.opaque, 0.5)
            gtk_widget_add_css_class(label, style)
        }
        let titles = Toolkit.box(GTK_ORIENTATION_VERTICAL, spacing: 0).add(titleLabel, subtitleLabel)
        gtk_widget_set_valign(titles, GTK_ALIGN_CENTER)
        spinner = gtk_spinner_new()!
        backButton = Toolkit.button("go-previous-symbolic", "Back (Escape)") { [self] in show("grid") }
        let save = Toolkit.button("document-save-symbolic", "Download (Control-S)") { [self] in self.save() }
        let settings = gtk_menu_button_new()!
        gtk_menu_button_set_icon_name(settings.opaque, "open-menu-symbolic")
        gtk_menu_button_set_has_frame(settings.opaque, 0)
        gtk_widget_set_tooltip_text(settings, "Settings")
        convoy_set_label(settings, "Settings")
        gtk_menu_button_set_popover(settings.opaque, makeSettings())
        let list = Toolkit.button("view-list-symbolic", "Downloads (Control-D)") { [self] in downloads.toggle() }
        for widget in [backButton!, spinner!] { gtk_header_bar_pack_start(header.opaque, widget) }
        for widget in [settings, list, save] { gtk_header_bar_pack_end(header.opaque, widget) }
        gtk_header_bar_set_title_widget(header.opaque, titles)
        return header
    }

    private func makeSettings() -> WidgetPointer {
        func row(_ text: String, _ control: WidgetPointer) -> WidgetPointer {
            let label = Toolkit.label(text)
            gtk_widget_set_hexpand(label, 1)
            gtk_label_set_mnemonic_widget(label.opaque, control)
            return Toolkit.box(GTK_ORIENTATION_HORIZONTAL, spacing: 24).add(label, control)
        }
        let jobs = gtk_spin_button_new_with_range(1, 16, 1)!
        gtk_spin_button_set_value(jobs.opaque, Double(options.jobs))
        Toolkit.connect(jobs, "value-changed") { [manager] _ in
            manager.maxConcurrentOperationCount = Int(gtk_spin_button_get_value(jobs.opaque))
            manager.maxConcurrentOperationCountPerHost = manager.maxConcurrentOperationCount
        }
        let rate = gtk_spin_button_new_with_range(0, 1_000_000, 50)!
        Toolkit.connect(rate, "value-changed") { [manager] _ in
            let kilobytes = Int64(gtk_spin_button_get_value(rate.opaque))
            manager.receiveRateLimit?.bytesPerSecond = kilobytes > 0 ? kilobytes << 10 : nil
        }
        let dark = gtk_switch_new()!
        gtk_widget_set_valign(dark, GTK_ALIGN_CENTER)
        // The switch also follows Control-T.
        if let settings = gtk_settings_get_default() {
            let flags = GBindingFlags(G_BINDING_BIDIRECTIONAL.rawValue | G_BINDING_SYNC_CREATE.rawValue)
            g_object_bind_property(UnsafeMutableRawPointer(settings), darkTheme, dark, "active", flags)
        }
        let popover = gtk_popover_new()!
        // A narrow window has no space on the right of the button.
        gtk_widget_set_halign(popover, GTK_ALIGN_END)
        gtk_popover_set_child(
            popover.of(),
            Toolkit.box(GTK_ORIENTATION_VERTICAL, margin: 12, spacing: 12)
                .add(row("Concurrent transfers", jobs), row("KiB per second (0: unlimited)", rate), row("Dark", dark)))
        return popover
    }

    private func makeViewer() -> WidgetPointer {
        viewer = gtk_picture_new()!.expanding()
        gtk_widget_set_focusable(viewer, 1)
        viewerMessage = gtk_label_new("")!
        gtk_label_set_wrap(viewerMessage.opaque, 1)
        gtk_widget_set_halign(viewerMessage, GTK_ALIGN_CENTER)
        gtk_widget_set_valign(viewerMessage, GTK_ALIGN_CENTER)
        gtk_label_set_justify(viewerMessage.opaque, GTK_JUSTIFY_CENTER)
        // Below the icon.
        gtk_widget_set_margin_top(viewerMessage, 140)
        let overlay = gtk_overlay_new()!
        gtk_overlay_set_child(overlay.opaque, viewer)
        gtk_overlay_add_overlay(overlay.opaque, viewerMessage)
        return overlay
    }

    private func makeBanner() -> WidgetPointer {
        let label = gtk_label_new("You are offline. Only previously loaded pictures are shown.")!
        gtk_label_set_wrap(label.opaque, 1)
        gtk_label_set_xalign(label.opaque, 0)
        let bar = gtk_info_bar_new()!
        gtk_info_bar_set_message_type(bar.opaque, GTK_MESSAGE_WARNING)
        gtk_info_bar_add_child(bar.opaque, label)
        gtk_info_bar_set_revealed(bar.opaque, 0)
        return bar
    }

    private func addActions() {
        func add(_ name: String, _ key: String, _ body: @escaping @MainActor () -> Void) {
            let action = g_simple_action_new(name, nil)!
            Toolkit.connect(UnsafeMutableRawPointer(action), "activate") { _ in body() }
            g_action_map_add_action(OpaquePointer(application), action)
            g_object_unref(UnsafeMutableRawPointer(action))
            var keys: [UnsafePointer<CChar>?] = key.withCString { [UnsafePointer(strdup($0)), nil] }
            gtk_application_set_accels_for_action(application, "app.\(name)", &keys)
            free(UnsafeMutableRawPointer(mutating: keys[0]))
        }
        add("back", "Escape") { [self] in show("grid") }
        add("next", "Right") { [self] in view(shown + 1) }
        add("previous", "Left") { [self] in view(shown - 1) }
        add("save", "<Control>s") { [self] in save() }
        add("downloads", "<Control>d") { [self] in downloads.toggle() }
        add("reload", "<Control>r") { [self] in loadList() }
        add("quit", "<Control>q") { [self] in gtk_window_destroy(window.of()) }
        add("theme", "<Control>t") { convoy_set_settings_flag(darkTheme, 1 - convoy_settings_flag(darkTheme)) }
    }

    /// Shows a page of the stack. Except in the viewer, the grid handles the arrow keys and Escape itself.
    private func show(_ page: String) {
        let isViewer = page == "viewer"
        gtk_stack_set_visible_child_name(stack.opaque, page)
        backButton.show(isViewer)
        for name in ["back", "next", "previous"] {
            g_simple_action_set_enabled(g_action_map_lookup_action(OpaquePointer(application), name), isViewer ? 1 : 0)
        }
        switch page {
        case "viewer": gtk_widget_grab_focus(viewer)
        case "status": status.focus()
        default:
            viewer.bound.clearImage()
            prefetcher.stopAll()
            setTitle(grid.pictures.isEmpty ? options.url.host ?? "" : "\(grid.pictures.count) pictures")
            grid.focus()
        }
    }

    /// Shows a title. The details have a line of their own, because a narrow window shortens a long title.
    private func setTitle(_ text: String, _ details: String = "") {
        gtk_label_set_text(titleLabel.opaque, Toolkit.printable(text))
        gtk_label_set_text(subtitleLabel.opaque, details)
        subtitleLabel.show(!details.isEmpty)
        gtk_window_set_title(window.of(), Toolkit.printable(details.isEmpty ? text : "\(text) (\(details))"))
    }

    // MARK: Requests

    private var list: HTTPRequestOperation?

    private func loadList() {
        list?.cancel()
        let operation = manager.makeOperation(request: URLRequest(url: options.url))
        operation.responseSerializer = HTTPResponseSerializer()
        list = operation
        spinner.bound.setAnimatingWithState(of: operation)
        operation.setCompletionHandler { [weak self] operation, _ in
            MainActor.assumeIsolated { self?.show(operation) }
        } failure: { [weak self] operation, error in
            MainActor.assumeIsolated { self?.fail(operation, error) }
        }
        manager.enqueue(operation)
    }

    private func show(_ operation: HTTPRequestOperation) {
        guard operation === list else { return }
        do {
            let base = operation.response?.url ?? options.url
            let pictures = try Listing.pictures(
                in: operation.responseData ?? Data(), of: operation.response?.mimeType, at: base)
            grid.show(pictures)
            guard pictures.isEmpty else { return show("grid") }
            showStatus(
                "image-x-generic-symbolic", "No Pictures", "\(options.url.absoluteString) has no links to pictures.")
        } catch {
            fail(operation, error)
        }
    }

    private func fail(_ operation: HTTPRequestOperation, _ error: any Error) {
        guard operation === list, (error as? URLError)?.code != .cancelled else { return }
        // The pictures of an earlier request remain visible.
        guard grid.pictures.isEmpty else { return window.bound.showAlert(for: error) }
        showStatus(
            "dialog-error-symbolic", "Pictures Not Loaded",
            "\(Explanation.sentence(for: error))\n\(options.url.absoluteString)")
    }

    private func showStatus(_ icon: String, _ title: String, _ text: String) {
        status.show(icon: icon, title, text)
        show("status")
        setTitle(title)
    }

    private func view(_ position: Int) {
        let pictures = grid.pictures
        guard pictures.indices.contains(position) else { return }
        shown = position
        show("viewer")
        let url = pictures[position]
        setTitle(url.lastPathComponent, "\(position + 1) of \(pictures.count)")
        convoy_set_label(viewer, Toolkit.printable(url.lastPathComponent))
        showMessage("")
        grid.select(position)
        viewer.bound.setImage(
            ImageRequest(url), placeholder: .icon("image-x-generic-symbolic"), failure: .icon("dialog-warning-symbolic"),
            showsPreviews: true, by: downloader
        ) { [weak self] result in
            guard let self else { return }
            if case .failure(let error) = result {
                showMessage(Explanation.sentence(for: error))
            }
            // Load the neighbours in the form in which the viewer will request them. Earlier neighbours are not needed, but
            // this picture may have been one of them until now.
            prefetcher.stopAll()
            let neighbours = [position + 1, position - 1].filter(pictures.indices.contains)
            prefetcher.startPrefetching(
                neighbours.map { Widget.imageRequest(for: ImageRequest(pictures[$0]), in: self.viewer.bound) })
        }
    }

    private func showMessage(_ text: String) {
        gtk_label_set_text(viewerMessage.opaque, Toolkit.printable(text))
        viewerMessage.show(!text.isEmpty)
    }

    private func save() {
        // The selection is also the picture that the viewer shows.
        guard grid.pictures.indices.contains(grid.selected) else { return }
        do { try downloads.add(grid.pictures[grid.selected]) } catch { window.bound.showAlert(for: error) }
    }

    private func watchNetwork() {
        reachability.reachabilityStatusChangeHandler = { [weak self] status in
            MainActor.assumeIsolated {
                guard let self else { return }
                gtk_info_bar_set_revealed(self.banner.opaque, status == .notReachable ? 1 : 0)
            }
        }
        do { try reachability.startMonitoring() } catch { window.bound.showAlert(for: error) }
    }
}
#endif
