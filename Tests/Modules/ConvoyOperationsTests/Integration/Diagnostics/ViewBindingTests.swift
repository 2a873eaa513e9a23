import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

/// Views bound to an operation.
@Suite struct ViewBindingTests {
    private let network = ThreadedTransport()
    private let queue = DispatchQueue(label: "views")
    private let key = DispatchSpecificKey<Bool>()

    init() { queue.setSpecific(key: key, value: true) }

    private final class Spinner: ActivityView, Sendable {
        let calls = Log()
        let key: DispatchSpecificKey<Bool>
        init(_ key: DispatchSpecificKey<Bool>) { self.key = key }
        private var place: String { DispatchQueue.getSpecific(key: key) == true ? "" : " elsewhere" }
        func startAnimating() { calls.add("start" + place) }
        func stopAnimating() { calls.add("stop" + place) }
    }

    private final class Bar: TransferProgressView, Sendable {
        let fractions = Locked<[Double?]>([])
        func setProgress(_ fraction: Double?, of transfer: TransferProgress) { fractions.withLock { $0.append(fraction) } }
        var all: [Double?] { fractions.withLock { $0 } }
    }

    private func operation() -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = queue
        return operation
    }

    @Test func `a spinner animates while its operation runs, and is updated only on its queue`() {
        let (spinner, operation) = (Spinner(key), operation())
        let binding = spinner.setAnimatingWithState(of: operation, on: queue)
        #expect(eventually { spinner.calls.all == ["stop"] })
        operation.start()
        #expect(eventually { spinner.calls.all == ["stop", "start"] })
        operation.pause()
        #expect(eventually { spinner.calls.all == ["stop", "start", "stop"] })
        operation.resume()
        #expect(eventually { spinner.calls.all.last == "start" })
        network.serve()
        #expect(eventually { binding.isOver })
        #expect(spinner.calls.all == ["stop", "start", "stop", "start", "stop"])
    }

    @Test func `a view that is bound to another operation, or to nil, no longer follows the first one`() {
        let (spinner, first, second) = (Spinner(key), operation(), operation())
        let earlier = spinner.setAnimatingWithState(of: first, on: queue)
        let later = spinner.setAnimatingWithState(of: second, on: queue)
        #expect(earlier.isOver && !later.isOver)
        queue.sync {}
        #expect(spinner.calls.all.last == "stop")
        let count = spinner.calls.all.count
        first.start()
        first.cancel()
        network.serve()
        #expect(eventually { first.isFinished })
        later.invalidate()
        second.start()
        #expect(eventually { second.isFinished })
        queue.sync {}
        #expect(spinner.calls.all.count == count)
    }

    @Test func `a binding retains neither the view nor the operation, and is released when the operation finishes`() {
        weak var spinner: Spinner?
        weak var bar: Bar?
        weak var unfinished: HTTPRequestOperation?
        weak var binding: ViewBinding?
        let operation = operation()
        do {
            let (view, progress, other) = (Spinner(key), Bar(), self.operation())
            (spinner, bar, unfinished) = (view, progress, other)
            binding = view.setAnimatingWithState(of: operation, on: queue)
            progress.setProgressWithDownloadProgress(of: operation, on: queue)
            view.setAnimatingWithState(of: other, on: queue)
            progress.setProgressWithUploadProgress(of: other, on: queue)
        }
        queue.sync {}
        #expect(eventually { spinner == nil && bar == nil && unfinished == nil })
        network.serve()
        operation.start()
        #expect(eventually { operation.isFinished } && eventually { binding == nil })
    }

    @Test func `a view bound after the operation has finished shows the final state`() {
        network.serve()
        let (spinner, bar, operation) = (Spinner(key), Bar(), operation())
        operation.start()
        #expect(eventually { operation.isFinished })
        let bindings = [
            spinner.setAnimatingWithState(of: operation, on: queue),
            bar.setProgressWithDownloadProgress(of: operation, on: queue),
        ]
        #expect(eventually { bindings.allSatisfy(\.isOver) })
        #expect(spinner.calls.all == ["stop"] && bar.all.last == 1)
    }

    @Test func `a progress bar completes before the handlers run, and skips updates if its queue is busy`() throws {
        let server = try TestServer()
        let gate = TestServer.Gate()
        server.route("/big", .bytes(Data(count: 4 << 20)).heldBody(by: gate, afterBytes: 1 << 20))
        let (bar, operation) = (Bar(), HTTPRequestOperation(request: URLRequest(url: server.url("/big"))))
        operation.completionQueue = queue
        let seen = Log()
        operation.completionBlock = { seen.add(bar.all.last == 1 ? "whole" : "not whole") }
        bar.setProgressWithDownloadProgress(of: operation, on: queue)
        // Wait for the first call, because later the bar would be called only with the latest value.
        #expect(eventually { bar.all == [nil] })
        operation.start()
        #expect(eventually { bar.all.contains { ($0 ?? 0) > 0 && ($0 ?? 0) < 1 } })
        queue.suspend()
        let count = bar.all.count
        gate.open()
        #expect(eventually { operation.isFinished })
        queue.resume()
        #expect(eventually { seen.all == ["whole"] })
        // The bar receives at most one pending value, and the last one.
        #expect(bar.all.count <= count + 3)
        let known = bar.all.compactMap { $0 }
        #expect(known == known.sorted())
    }

    @Test func `an upload's progress bar shows the bytes sent`() throws {
        let server = try TestServer()
        server.route("POST", "/take", .text("thanks"))
        var request = URLRequest(url: server.url("/take"))
        request.httpMethod = "POST"
        request.httpBody = Data(count: 1 << 20)
        let (bar, operation) = (Bar(), HTTPRequestOperation(request: request))
        operation.completionQueue = queue
        let binding = bar.setProgressWithUploadProgress(of: operation, on: queue)
        // Wait for the first call, because later the bar would be called only with the latest value.
        #expect(eventually { bar.all == [nil] })
        operation.start()
        #expect(eventually { binding.isOver })
        #expect(bar.all.last == 1)
    }
}
