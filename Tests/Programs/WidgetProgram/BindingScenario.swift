#if GTK
import CGTK
import ConvoyDiagnostics
import ConvoyGTK
import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking

/// Spinners, bars, rows, alerts and events, each bound to real requests.
@MainActor enum BindingScenario {
    static func run() async throws -> [String: Any] {
        let server = try TestServer()
        let window = TestWindow()
        try await window.show()
        var result: [String: Any] = [:]
        try await spinner(server, window, &result)
        try await bars(server, window, &result)
        try await rows(server, window, &result)
        try await alerts(server, &result)
        try await events(server, window, &result)
        return result
    }

    private static func operation(_ server: TestServer, _ path: String) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url(path)))
        operation.responseSerializer = HTTPResponseSerializer()
        return operation
    }

    private static func isSpinning(_ spinner: Widget) -> Bool {
        gtk_spinner_get_spinning(OpaquePointer(spinner.pointer)) != 0
    }

    private static func spinner(_ server: TestServer, _ window: TestWindow, _ result: inout [String: Any]) async throws {
        let gate = TestServer.Gate()
        server.route("/held", TestServer.Response.bytes(Data("x".utf8)).held(by: gate))
        let spinner = window.add(gtk_spinner_new())
        let held = operation(server, "/held")
        let binding = spinner.setAnimatingWithState(of: held)
        result["spinsBefore"] = isSpinning(spinner)
        held.start()
        try await Scenario.wait("the spinner to turn") { isSpinning(spinner) }
        held.pause()
        try await Scenario.wait("the spinner to rest in a pause") { !isSpinning(spinner) }
        held.resume()
        try await Scenario.wait("the spinner to go on") { isSpinning(spinner) }
        gate.open()
        try await Scenario.wait("the spinner to stop") { !isSpinning(spinner) && binding.isOver }

        // Bind another operation. The end of the first one must not stop the spinner.
        let (first, second) = (TestServer.Gate(), TestServer.Gate())
        server.route("/first", TestServer.Response.bytes(Data("x".utf8)).held(by: first))
        server.route("/second", TestServer.Response.bytes(Data("x".utf8)).held(by: second))
        let (one, two) = (operation(server, "/first"), operation(server, "/second"))
        let old = spinner.setAnimatingWithState(of: one)
        one.start()
        try await Scenario.wait("the first") { isSpinning(spinner) }
        spinner.setAnimatingWithState(of: two)
        two.start()
        try await Scenario.wait("the second") { isSpinning(spinner) }
        first.open()
        try await one.finished()
        try await Task.sleep(for: .milliseconds(30))
        result["spinsForSecond"] = isSpinning(spinner) && old.isOver
        second.open()
        try await Scenario.wait("the end of the second") { !isSpinning(spinner) }

        // Bind a batch, and release its spinner before the operation ends.
        let last = TestServer.Gate()
        server.route("/last", TestServer.Response.bytes(Data("x".utf8)).held(by: last))
        let members = [operation(server, "/last"), operation(server, "/last")]
        let batch = BatchOperation(of: members, completionQueue: .global())
        spinner.setAnimatingWithState(of: batch)
        let queue = RequestOperationQueue()
        queue.addOperations(members + [batch], waitUntilFinished: false)
        try await Scenario.wait("the spinner of a batch") { isSpinning(spinner) }
        let living = LivingWidgets()
        let gone = window.add(gtk_spinner_new())
        living.watch(gone)
        gone.setAnimatingWithState(of: members[0])
        gtk_box_remove(
            UnsafeMutableRawPointer(window.box).assumingMemoryBound(to: GtkBox.self),
            gone.pointer.assumingMemoryBound(to: GtkWidget.self))
        result["livingSpinners"] = living.count
        last.open()
        try await Scenario.wait("the end of the batch") { !isSpinning(spinner) }

        // The widget does not retain finished operations.
        weak var weakOperation: HTTPRequestOperation?
        do {
            let short = operation(server, "/last")
            weakOperation = short
            spinner.setAnimatingWithState(of: short)
            short.start()
            try await short.finished()
        }
        try await Scenario.wait("the operation to be released") { weakOperation == nil }
        result["spinnerReleases"] = true
    }

    private static func bars(_ server: TestServer, _ window: TestWindow, _ result: inout [String: Any]) async throws {
        let bar = window.add(gtk_progress_bar_new())
        let level = window.add(gtk_level_bar_new_for_interval(0, 10))
        func fraction() -> Double { gtk_progress_bar_get_fraction(OpaquePointer(bar.pointer)) }
        func value() -> Double { gtk_level_bar_get_value(OpaquePointer(level.pointer)) }

        let gate = TestServer.Gate()
        let body = Data(count: 400_000)
        server.route("/half", TestServer.Response.bytes(body).heldBody(by: gate, afterBytes: 200_000))
        let half = operation(server, "/half")
        bar.setProgressWithDownloadProgress(of: half)
        level.setProgressWithDownloadProgress(of: half)
        half.start()
        try await Scenario.wait("half of the bar") { abs(fraction() - 0.5) < 0.1 && abs(value() - 5) < 1 }
        gate.open()
        try await Scenario.wait("all of the bar") { fraction() == 1 && value() == 10 }

        // The length of this body is never announced.
        let open = TestServer.Gate()
        let chunked = TestServer.Response.bytes(Data(count: 100_000)).framed(.chunked).heldBody(by: open, afterBytes: 50_000)
        server.route("/unknown", chunked)
        let unknown = operation(server, "/unknown")
        bar.setProgressWithDownloadProgress(of: unknown)
        unknown.start()
        try await Scenario.wait("the head") { unknown.transferProgress.bytesReceived > 0 }
        try await Task.sleep(for: .milliseconds(250))
        result["fractionWhileUnknown"] = fraction()
        open.open()
        try await Scenario.wait("the end of an unknown length") { fraction() == 1 }

        server.route("/cut", chunked.failing(.reset(afterBytes: 60_000)))
        let cut = operation(server, "/cut")
        bar.setProgressWithDownloadProgress(of: cut)
        cut.start()
        try await Scenario.wait("the failure") { cut.isFinished }
        try await Task.sleep(for: .milliseconds(250))
        result["fractionAfterFailure"] = fraction()

        // Bind an upload and a batch.
        server.route("POST", "/upload", TestServer.Response(status: 204))
        var request = URLRequest(url: server.url("/upload"))
        request.httpMethod = "POST"
        request.httpBody = Data(count: 300_000)
        let upload = HTTPRequestOperation(request: request)
        bar.setProgressWithUploadProgress(of: upload)
        upload.start()
        try await Scenario.wait("the upload") { fraction() == 1 }

        server.route("/whole", .bytes(body))
        let members = (0..<4).map { _ in operation(server, "/whole") }
        let batch = BatchOperation(of: members, completionQueue: .global())
        bar.setProgress(of: batch)
        result["fractionBeforeBatch"] = fraction()
        let queue = RequestOperationQueue()
        queue.addOperations(members + [batch], waitUntilFinished: false)
        try await Scenario.wait("the batch") { batch.isFinished && fraction() == 1 }
    }

    private static func rows(_ server: TestServer, _ window: TestWindow, _ result: inout [String: Any]) async throws {
        let list = window.add(gtk_list_box_new())
        func rowCount() -> Int {
            var count = 0
            while gtk_list_box_get_row_at_index(OpaquePointer(list.pointer), Int32(count)) != nil { count += 1 }
            return count
        }
        gtk_list_box_append(OpaquePointer(list.pointer), gtk_label_new("one"))
        let gate = TestServer.Gate()
        server.route("/rows", TestServer.Response.bytes(Data("x".utf8)).held(by: gate))
        let refresh = operation(server, "/rows")
        list.setRefreshingWithState(of: refresh)
        refresh.start()
        try await Scenario.wait("the row") { rowCount() == 2 }
        gate.open()
        try await Scenario.wait("the row to go") { rowCount() == 1 }

        // The program empties the list while the row is visible.
        let second = TestServer.Gate()
        server.route("/more", TestServer.Response.bytes(Data("x".utf8)).held(by: second))
        let more = operation(server, "/more")
        list.setRefreshingWithState(of: more, at: -1)
        more.start()
        try await Scenario.wait("the second row") { rowCount() == 2 }
        while let row = gtk_list_box_get_row_at_index(OpaquePointer(list.pointer), 0) {
            gtk_list_box_remove(
                OpaquePointer(list.pointer), UnsafeMutableRawPointer(row).assumingMemoryBound(to: GtkWidget.self))
        }
        second.open()
        try await more.finished()
        try await Task.sleep(for: .milliseconds(30))
        result["rowsAfterEmptying"] = rowCount()
    }

    private static func dialogs() -> [UnsafeMutablePointer<GtkWidget>] {
        var dialogs: [UnsafeMutablePointer<GtkWidget>] = []
        let list = gtk_window_list_toplevels()
        var link = list
        while let here = link {
            if let window = here.pointee.data, convoy_is_a(window, gtk_message_dialog_get_type()) != 0 {
                dialogs.append(window.assumingMemoryBound(to: GtkWidget.self))
            }
            link = here.pointee.next
        }
        g_list_free(list)
        return dialogs
    }

    private static func texts(of dialog: UnsafeMutableRawPointer) -> (title: String, text: String) {
        func text(_ name: String) -> String {
            var value = GValue()
            g_object_get_property(dialog.assumingMemoryBound(to: GObject.self), name, &value)
            defer { g_value_unset(&value) }
            return g_value_get_string(&value).map { String(cString: $0) } ?? ""
        }
        return (text("text"), text("secondary-text"))
    }

    private static func alerts(_ server: TestServer, _ result: inout [String: Any]) async throws {
        let window = TestWindow()
        try await window.show()
        server.route("/missing", TestServer.Response(status: 404))
        let parent = Widget(window.window)
        func fail(_ path: String) async throws {
            let failing = operation(server, path)
            parent.showAlert(onErrorOf: failing)
            failing.start()
            try? await failing.finished()
            try await Scenario.wait("the failure") { failing.isFinished }
        }
        try await fail("/missing")
        try await Scenario.wait("the alert") { dialogs().count == 1 }
        try await fail("/missing")
        try await Task.sleep(for: .milliseconds(30))
        result["alertsForTwo"] = dialogs().count
        func close() {
            gtk_dialog_response(
                UnsafeMutableRawPointer(dialogs()[0]).assumingMemoryBound(to: GtkDialog.self), GTK_RESPONSE_CLOSE.rawValue)
        }
        close()
        try await Scenario.wait("the alert to be gone") { dialogs().isEmpty }

        // The failure reason of an error that was not retried begins with its description.
        let stopped = try TestServer()
        stopped.stop()
        let refused = HTTPRequestOperation(request: URLRequest(url: stopped.url("/")))
        refused.retryPolicy = RetryPolicy(maximumRetryCount: 0)
        parent.showAlert(onErrorOf: refused)
        refused.start()
        try? await refused.finished()
        try await Scenario.wait("the alert of a refused connection") { dialogs().count == 1 }
        let texts = texts(of: dialogs()[0])
        result["alertTitle"] = texts.title
        result["alertText"] = texts.text
        close()
        try await Scenario.wait("the alert to be gone") { dialogs().isEmpty }

        // The reason begins with the title, and with a longer word.
        for (title, reason) in [("Not read", "Not readable"), ("Not read", "Not read. It is empty.")] {
            parent.showAlert(
                for: NSError(
                    domain: "test", code: 1,
                    userInfo: [NSLocalizedDescriptionKey: title, NSLocalizedFailureReasonErrorKey: reason]))
            try await Scenario.wait("the alert with a reason") { dialogs().count == 1 }
            result["alertText of \(reason)"] = Self.texts(of: dialogs()[0]).text
            close()
            try await Scenario.wait("the alert to be gone") { dialogs().isEmpty }
        }

        // A cancelled operation shows no alert, and printf directives in a text are shown unchanged.
        server.route("/held-alert", TestServer.Response.bytes(Data("x".utf8)).held(by: TestServer.Gate()))
        let cancelled = operation(server, "/held-alert")
        parent.showAlert(onErrorOf: cancelled)
        cancelled.start()
        cancelled.cancel()
        try? await cancelled.finished()
        try await Task.sleep(for: .milliseconds(30))
        result["alertsForCancelled"] = dialogs().count
        parent.showAlert(for: NSError(domain: "test", code: 1, userInfo: [NSLocalizedDescriptionKey: "%s%n 100 %\0"]))
        try await Scenario.wait("the alert of an error") { dialogs().count == 1 }
        window.destroy()
        try await Scenario.wait("the alert to go with its window") { dialogs().isEmpty }
    }

    private static func events(_ server: TestServer, _ window: TestWindow, _ result: inout [String: Any]) async throws {
        let scroller = gtk_scrolled_window_new()!
        gtk_widget_set_size_request(scroller, 300, 100)
        let view = gtk_text_view_new()!
        gtk_scrolled_window_set_child(OpaquePointer(scroller), view)
        window.add(scroller)
        let buffer = gtk_text_view_get_buffer(UnsafeMutableRawPointer(view).assumingMemoryBound(to: GtkTextView.self))
        func lineCount() -> Int { Int(gtk_text_buffer_get_line_count(buffer)) }
        func text() -> String {
            var (begin, end) = (GtkTextIter(), GtkTextIter())
            gtk_text_buffer_get_bounds(buffer, &begin, &end)
            guard let text = gtk_text_buffer_get_text(buffer, &begin, &end, 1) else { return "" }
            defer { g_free(text) }
            return String(cString: text)
        }
        let adjustment = gtk_scrollable_get_vadjustment(OpaquePointer(view))
        func isAtEnd() -> Bool {
            gtk_adjustment_get_value(adjustment) + gtk_adjustment_get_page_size(adjustment)
                >= gtk_adjustment_get_upper(adjustment) - 8
        }

        let gate = TestServer.Gate()
        let first = (0..<3000).map { "event: kind\($0 % 3)\ndata: line \($0)\n\n" }.joined()
        let odd =
            "data: a\0b\n\ndata: \(String(repeating: "x", count: 50_000))\n\ndata: e\(String(repeating: "\u{301}", count: 40_000))\n\n"
        let last = "data: one\ndata: two\n\ndata: the end\n\n"
        let body = Data((first + odd + last).utf8)
        server.route(
            "/events",
            TestServer.Response.bytes(body, type: "text/event-stream").framed(.chunked).heldBody(
                by: gate, afterBytes: first.utf8.count))
        let source = EventSource(url: server.url("/events"))
        Widget(view).showEvents(of: source, maximumLineCount: 100)
        source.start()
        try await Scenario.wait("the last line of the first part") { text().hasSuffix("line 2999") }
        result["eventLines"] = lineCount()
        result["firstEventLine"] = text().split(separator: "\n").first.map(String.init) ?? ""
        try await Scenario.wait("the view to follow") { isAtEnd() }

        // If the user has scrolled up, new lines do not move the view.
        try await Task.sleep(for: .milliseconds(150))
        gtk_adjustment_set_value(adjustment, 0)
        gate.open()
        try await Scenario.wait("the end") { text().hasSuffix("the end") }
        try await Task.sleep(for: .milliseconds(100))
        result["followsWhileScrolledAway"] = isAtEnd()
        result["longestLine"] = text().split(separator: "\n").map(\.unicodeScalars.count).max() ?? 0
        result["hasReplacement"] = text().contains("a\u{FFFD}b")
        result["hasBothLines"] = text().contains("one\ntwo")
        source.close()
    }

    // MARK: Accessibility

    /// Checks the accessible states under `GTK_A11Y=test`.
    static func accessibility() async throws -> [String: Any] {
        let server = try TestServer()
        let window = TestWindow()
        try await window.show()
        var result: [String: Any] = [:]
        let gate = TestServer.Gate()
        server.route("/held", TestServer.Response(status: 404).held(by: gate))
        let picture = window.add(gtk_picture_new())
        func has(_ state: GtkAccessibleState) -> Bool {
            gtk_test_accessible_has_state(OpaquePointer(picture.pointer), state) != 0
        }
        let widget = picture.pointer.assumingMemoryBound(to: GtkWidget.self)
        func isDescribed(_ text: String) -> Bool {
            convoy_test_has_text(widget, GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text) != 0
        }
        func hasError() -> Bool {
            gtk_test_accessible_has_property(OpaquePointer(picture.pointer), GTK_ACCESSIBLE_PROPERTY_VALUE_TEXT) != 0
        }
        gtk_picture_set_alternative_text(OpaquePointer(picture.pointer), "portrait of Ada")
        Widget.texts.imageFailure = { _ in "Das Bild fehlt." }
        picture.setImage(from: server.url("/held"))
        result["busyWhileLoading"] = has(GTK_ACCESSIBLE_STATE_BUSY)
        gate.open()
        try await Scenario.wait("the failure") { !picture.isLoadingImage }
        result["keepsTextAfterFailure"] = isDescribed("portrait of Ada")
        result["hasError"] = convoy_test_has_text(widget, GTK_ACCESSIBLE_PROPERTY_VALUE_TEXT, "Das Bild fehlt.") != 0
        result["isInvalid"] = has(GTK_ACCESSIBLE_STATE_INVALID)
        gtk_picture_set_alternative_text(OpaquePointer(picture.pointer), "portrait of Hedy")
        server.route("/fine.bmp", .bytes(NumberedPicture.bitmap(5), type: "image/bmp"))
        picture.setImage(from: server.url("/fine.bmp"))
        try await Scenario.wait("the picture") { !picture.isLoadingImage }
        result["keepsTextAfterSuccess"] = isDescribed("portrait of Hedy")
        result["hasErrorAfterSuccess"] = hasError()
        return result
    }
}
#endif
