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
    private var (pictures, shown): ([URL], Int) = ([], 0)
    private var window: WidgetPointer!
    private var stack: WidgetPointer!
    private var grid: WidgetPointer!
    private var viewer: WidgetPointer!
    private var titleLabel: WidgetPointer!
    private var spinner: WidgetPointer!
    private var message: WidgetPointer!
    private var backButton: WidgetPointer!
    private var saveButton: WidgetPointer!
    private var banner: WidgetPointer!
    private var downloads: DownloadList!
    private let model = gtk_string_list_new(nil)!
    private var selection: OpaquePointer!

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
        message = Toolkit.label("")
        gtk_widget_set_halign(message, GTK_ALIGN_CENTER)
        gtk_label_set_wrap(message.opaque, 1)
        viewer = gtk_picture_new()!.expanding()
        gtk_widget_set_focusable(viewer, 1)
        for (page, name) in [(makeGrid(), "grid"), (viewer!, "viewer"), (message!, "message")] {
            gtk_stack_add_named(stack.opaque, page, name)
        }
        let offline = Toolkit.label("You are offline. Only previously loaded pictures are shown.")
        gtk_widget_add_css_class(offline, "app-notification")
        gtk_widget_set_halign(offline, GTK_ALIGN_CENTER)
        banner = Toolkit.revealer(offline, GTK_REVEALER_TRANSITION_TYPE_SLIDE_DOWN)
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
        gtk_widget_add_css_class(titleLabel, "title")
        spinner = gtk_spinner_new()!
        backButton = Toolkit.button("go-previous-symbolic", "Back (Escape)") { [self] in show("grid") }
        saveButton = Toolkit.button("document-save-symbolic", "Download (Control-S)") { [self] in save() }
        let settings = gtk_menu_button_new()!
        gtk_menu_button_set_icon_name(settings.opaque, "open-menu-symbolic")
        gtk_menu_button_set_popover(settings.opaque, makeSettings())
        let list = Toolkit.button("view-list-symbolic", "Downloads (Control-D)") { [self] in downloads.toggle() }
        for widget in [backButton!, spinner!] { gtk_header_bar_pack_start(header.opaque, widget) }
        for widget in [settings, list, saveButton!] { gtk_header_bar_pack_end(header.opaque, widget) }
        gtk_header_bar_set_title_widget(header.opaque, titleLabel)
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
        gtk_switch_set_active(dark.opaque, convoy_settings_flag(darkTheme))
        Toolkit.connect(dark, "notify::active") { _ in
            convoy_set_settings_flag(darkTheme, gtk_switch_get_active(dark.opaque))
        }
        let popover = gtk_popover_new()!
        gtk_popover_set_child(
            popover.of(),
            Toolkit.box(GTK_ORIENTATION_VERTICAL, margin: 12, spacing: 12)
                .add(row("Concurrent transfers", jobs), row("KiB per second (0: unlimited)", rate), row("Dark", dark)))
        return popover
    }

    private func makeGrid() -> WidgetPointer {
        let factory = gtk_signal_list_item_factory_new()!
        Toolkit.connect(UnsafeMutableRawPointer(factory), "setup") { argument in
            let picture = gtk_picture_new()!
            gtk_picture_set_content_fit(picture.opaque, GTK_CONTENT_FIT_COVER)
            gtk_widget_set_size_request(picture, 144, 144)
            gtk_list_item_set_child(OpaquePointer(bitPattern: argument), picture)
        }
        // Cells are reused: the next call replaces the cell's image and cancels its download.
        Toolkit.connect(UnsafeMutableRawPointer(factory), "bind") { [self] argument in
            guard let cell = gtk_list_item_get_child(OpaquePointer(bitPattern: argument)) else { return }
            let url = pictures[Int(gtk_list_item_get_position(OpaquePointer(bitPattern: argument)))]
            gtk_picture_set_alternative_text(cell.opaque, url.lastPathComponent)
            cell.bound.setImage(
                from: url, placeholder: .icon("image-x-generic-symbolic"), failure: .icon("image-missing-symbolic"),
                transition: .crossFade(), by: downloader)
        }
        Toolkit.connect(UnsafeMutableRawPointer(factory), "unbind") { argument in
            gtk_list_item_get_child(OpaquePointer(bitPattern: argument))?.bound.clearImage()
        }
        selection = gtk_single_selection_new(model)
        grid = gtk_grid_view_new(selection, factory)!
        gtk_grid_view_set_max_columns(grid.opaque, 8)  // GTK creates 30 rows of this many cells.
        gtk_grid_view_set_min_columns(grid.opaque, 2)
        Toolkit.connect(grid, "activate") { [self] position in view(Int(UInt32(truncatingIfNeeded: position))) }
        let scroller = gtk_scrolled_window_new()!.expanding()
        gtk_scrolled_window_set_child(scroller.opaque, grid)
        return scroller
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
        gtk_stack_set_visible_child_name(stack.opaque, page == "grid" && pictures.isEmpty && !isLoading ? "message" : page)
        backButton.show(isViewer)
        for name in ["back", "next", "previous"] {
            g_simple_action_set_enabled(g_action_map_lookup_action(OpaquePointer(application), name), isViewer ? 1 : 0)
        }
        gtk_widget_grab_focus(isViewer ? viewer : grid)
        if isViewer { return }
        viewer.bound.clearImage()
        setTitle(pictures.isEmpty ? options.url.host ?? "" : "\(pictures.count) pictures")
    }

    private func setTitle(_ text: String) {
        gtk_label_set_text(titleLabel.opaque, text)
        gtk_window_set_title(window.of(), text)
    }

    // MARK: Requests

    private var isLoading: Bool { list?.isFinished == false }
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
            pictures = try Listing.pictures(
                in: operation.responseData ?? Data(), of: operation.response?.mimeType, at: base)
        } catch {
            return fail(operation, error)
        }
        var names: [UnsafePointer<CChar>?] = pictures.map { UnsafePointer(strdup($0.lastPathComponent)) } + [nil]
        gtk_string_list_splice(model, 0, g_list_model_get_n_items(model), &names)
        for name in names { free(UnsafeMutableRawPointer(mutating: name)) }
        gtk_label_set_text(message.opaque, "No links to pictures were found at \(options.url.absoluteString).")
        show("grid")
    }

    private func fail(_ operation: HTTPRequestOperation, _ error: any Error) {
        guard operation === list, (error as? URLError)?.code != .cancelled else { return }
        gtk_label_set_text(message.opaque, "\(error.localizedDescription)\nPress Control-R to retry.")
        show("grid")
        window.bound.showAlert(for: error)
    }

    private func view(_ position: Int) {
        guard pictures.indices.contains(position) else { return }
        shown = position
        show("viewer")
        let url = pictures[position]
        setTitle("\(url.lastPathComponent) (\(position + 1) of \(pictures.count))")
        gtk_picture_set_alternative_text(viewer.opaque, url.lastPathComponent)
        gtk_single_selection_set_selected(selection, UInt32(position))
        viewer.bound.setImage(
            ImageRequest(url), placeholder: .icon("image-x-generic-symbolic"), failure: .icon("image-missing-symbolic"),
            showsPreviews: true, by: downloader
        ) { [weak self] result in
            guard case .failure(let error) = result else { return }
            self?.setTitle("\(url.lastPathComponent): \(error.localizedDescription)")
        }
        prefetcher.stopAll()
        let neighbours = [position + 1, position - 1].filter(pictures.indices.contains)
        prefetcher.startPrefetching(neighbours.map { ImageRequest(pictures[$0]) })
    }

    private func save() {
        let isViewing = gtk_stack_get_visible_child(stack.opaque) == viewer
        let position = isViewing ? shown : Int(gtk_single_selection_get_selected(selection))
        guard pictures.indices.contains(position) else { return }
        do { try downloads.add(pictures[position]) } catch { window.bound.showAlert(for: error) }
    }

    private func watchNetwork() {
        reachability.reachabilityStatusChangeHandler = { [weak self] status in
            MainActor.assumeIsolated {
                guard let self else { return }
                gtk_revealer_set_reveal_child(self.banner.opaque, status == .notReachable ? 1 : 0)
            }
        }
        do { try reachability.startMonitoring() } catch { window.bound.showAlert(for: error) }
    }
}
#endif
