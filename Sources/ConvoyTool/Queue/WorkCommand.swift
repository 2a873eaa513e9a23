import Convoy
import ConvoySharedQueue
import ConvoySupport
import Dispatch
import Foundation
import Synchronization

/// `convoy work`: processes the entries of a shared queue.
enum WorkCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        if let word = options.arguments.first { throw options.usage("unexpected argument '\(Printable.line(word))'") }
        let display = try Display(options, printsBodies: false)
        let queue = SharedQueue(store: try QueueStore.store(options))
        var settings = try workerSettings(options)
        let headers = try SuppliedHeaders(options)
        let transfers = try transferSettings(options, headers, display)
        let board = WorkBoard(display, printsJSON: options.has("json"))
        settings.eventHandler = { board.report($0) }
        let count = Atomic(0)
        let worker = SharedQueueWorker(
            queue: queue, manager: HTTPRequestOperationManager(baseURL: nil), settings: settings
        ) { operation, entry in
            let number = count.add(1, ordering: .relaxed).newValue
            if let url = operation.request.url {
                try? transfers.apply(
                    to: operation, url, operation.connectionConfiguration, number: number, heard: { _ in })
            }
            transfers.speed.apply(to: operation)
            // The entry determines how often the request is retried.
            operation.retryPolicy = nil
            headers.apply(to: operation)
            board.watch(operation, entry)
        }
        try QueueStore.check(options, makes: true)
        let metrics = try QueueMetrics.serve(options, queue) { worker.statistics }
        defer { metrics?.stop() }
        if let warning = transfers.trust.warning { display.complain(warning) }
        try QueueLimit.setForAll(options, queue)
        if let metrics { display.say("metrics: http://127.0.0.1:\(metrics.port)/metrics") }
        let filters = settings.tags.map { tags in tags.map { Self.filter(tag: $0) } } ?? [SharedQueue.Filter()]
        let error = run(worker, board, until: options.has("until-empty") ? { isEmpty(queue, filters, board) } : nil)
        board.finish(worker.statistics)
        if let error { throw QueueCall.toolError(error) }
        let hasFailed = options.has("until-empty") && worker.statistics.failed > 0
        // The worker stopped without having reported to its database.
        let isDisconnected = worker.statistics.connectionError != nil
        return transfers.finish(hasFailed || isDisconnected || Display.hasFailed ? .failure : .success, display)
    }

    private static func filter(tag: String) -> SharedQueue.Filter {
        var filter = SharedQueue.Filter()
        filter.tag = tag
        return filter
    }

    // MARK: Settings

    private static func workerSettings(_ options: Options) throws(ToolError) -> SharedQueueWorker.Settings {
        var settings = SharedQueueWorker.Settings()
        settings.maximumConcurrentJobs = try options.integer("jobs", in: 1...256) ?? 6
        if options.has("tag") { settings.tags = options.all("tag") }
        if options.has("fair") { settings.tagWeights = [:] }
        for text in options.all("weight") {
            guard let sign = text.lastIndex(of: "="), let weight = Double(text[text.index(after: sign)...]),
                (0.001...1000).contains(weight), options.has("fair")
            else {
                throw options.usage(
                    options.has("fair") ? "--weight takes TAG=N, with N from 0.001 to 1000" : "--weight requires --fair")
            }
            settings.tagWeights?[String(text[..<sign])] = weight
        }
        if let seconds = try options.seconds("lease") {
            guard (1...86_400).contains(seconds) else { throw options.usage("--lease takes from 1 to 86400 seconds") }
            settings.leaseDuration = seconds
        }
        for text in options.all("folder") {
            guard let sign = text.firstIndex(of: "="), sign > text.startIndex, text.index(after: sign) < text.endIndex else {
                throw options.usage("--folder takes NAME=DIR")
            }
            let path = String(text[text.index(after: sign)...])
            settings.folders[String(text[..<sign])] = UserPath.url(path, isDirectory: true).absoluteURL
        }
        return settings
    }

    private static func transferSettings(
        _ options: Options, _ headers: SuppliedHeaders, _ display: Display
    ) throws(ToolError) -> TransferSettings {
        let (speed, routes) = (try SpeedOptions(options), try RouteOptions(options))
        let cookies = try CookieOptions(options, display)
        var login = LoginOptions(options)
        for url in headers.urls { try login.adopt(url, options) }
        try login.ask(options)
        // The number of transfers is unlimited, so their lines are numbered.
        return TransferSettings(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: try TrustOptions(options),
            trace: try TraceOptions(options, display, count: .max))
    }

    // MARK: The run

    /// Runs the worker on this thread until it is stopped. The first signal lets running entries finish, the second
    /// returns them to the queue, and the third ends the program.
    private static func run(
        _ worker: SharedQueueWorker, _ board: WorkBoard, until isEmpty: (() -> Bool)?
    ) -> (any Error)? {
        let isOver = DispatchSemaphore(value: 0)
        let failure = Locked<(any Error)?>(nil)
        Interruption.shared.onInterrupt(
            {
                worker.stop(.drained)
                board.showStop()
            }, again: { worker.stop(.now) })
        Task {
            do { try await worker.run() } catch { failure.withLock { $0 = error } }
            isOver.signal()
        }
        var nextLook = MonotonicClock.now, pause: MonotonicTime = 100_000_000
        while isOver.wait(timeout: .now() + .milliseconds(250)) == .timedOut {
            let statistics = worker.statistics
            board.show(statistics, isStopping: Interruption.shared.status != nil)
            guard let isEmpty, statistics.running == 0, MonotonicClock.now >= nextLook else { continue }
            if isEmpty() { worker.stop(.drained) }
            pause = min(pause * 2, 3_000_000_000)
            nextLook = MonotonicClock.now + pause
        }
        return failure.withLock { $0 }
    }

    /// Returns whether no entry is ready, running, or scheduled for later. A database that does not respond does not
    /// count as empty. Reports a pause of the queue, because the worker would wait for its end without a sign.
    private static func isEmpty(_ queue: SharedQueue, _ filters: [SharedQueue.Filter], _ board: WorkBoard) -> Bool {
        let open: Set<WorkState> = [.waiting, .ready, .leased, .retrying]
        return
            (try? QueueCall.result {
                for var filter in filters {
                    filter.states = open
                    guard try await queue.entries(filter, limit: 1).isEmpty else {
                        board.showPause(try await queue.isPaused())
                        return false
                    }
                }
                return true
            }) ?? false
    }
}
