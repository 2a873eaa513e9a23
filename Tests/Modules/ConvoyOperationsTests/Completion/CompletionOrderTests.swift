import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The order in which the handlers of different operations run.
@Suite struct CompletionOrderTests {
    /// The outcome of a dependent after its dependency has finished.
    enum Ending: CaseIterable {
        case runs, throwsInPrepare, cannotBeMade, isCancelledWithItsDependency
    }

    private struct Refusal: Error {}

    let server: TestServer
    let queue = RequestOperationQueue()
    let handlers = DispatchQueue(label: "Convoy.Tests.Order")

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
    }

    /// A record of the handlers that were called, in order.
    private final class Record: Sendable {
        private let names = Locked<[Int]>([])
        private let done = DispatchSemaphore(value: 0)
        private let expected: Int

        init(expecting count: Int) { expected = count }

        func note(_ number: Int) {
            let count = names.withLock { names in
                names.append(number)
                return names.count
            }
            if count == expected { done.signal() }
        }

        func wait() -> [Int]? {
            guard done.wait(timeout: .now() + 100) == .success else { return nil }
            return names.withLock { $0 }
        }
    }

    private func operation(
        _ number: Int, noting record: Record, thread: NetworkThread = .shared, queue: DispatchQueue? = nil
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")), thread: thread)
        operation.completionQueue = queue ?? handlers
        operation.setCompletionHandler(
            success: { _, _ in record.note(number) }, failure: { _, _ in record.note(number) })
        return operation
    }

    @Test(arguments: Ending.allCases)
    func `a dependency's handlers run before those of its dependents`(ending: Ending) throws {
        for _ in 0..<PropertyBudget.rounds(3) {
            let pairs = 32
            let record = Record(expecting: pairs * 2)
            for pair in 0..<pairs {
                let first = operation(pair * 2, noting: record)
                let second = operation(pair * 2 + 1, noting: record)
                second.addDependency(first)
                switch ending {
                case .runs: break
                case .throwsInPrepare: second.prepare = { _ in throw Refusal() }
                case .cannotBeMade: second.fail(with: Refusal())
                case .isCancelledWithItsDependency: second.dependencyFailurePolicy = .cancel
                }
                queue.addOperations([second, first], waitUntilFinished: false)
                if ending == .isCancelledWithItsDependency { first.cancel() }
            }
            let order = try #require(record.wait())
            for pair in 0..<pairs {
                let first = try #require(order.firstIndex(of: pair * 2))
                let second = try #require(order.firstIndex(of: pair * 2 + 1))
                #expect(first < second)
            }
        }
    }

    @Test func `the handlers of a chain run in order across several network threads`() throws {
        let threads = (0..<3).map { _ in NetworkThread() }
        for round in 0..<5 {
            let record = Record(expecting: 100)
            var chain: [HTTPRequestOperation] = []
            for number in 0..<100 {
                let next = operation(number, noting: record, thread: threads[(number + round) % 3])
                // Some operations never reach the network, and end on an unrelated thread.
                if number % 4 == 1 { next.prepare = { _ in throw Refusal() } }
                if number % 4 == 2 { next.fail(with: Refusal()) }
                if let last = chain.last { next.addDependency(last) }
                chain.append(next)
            }
            queue.addOperations(chain.reversed(), waitUntilFinished: false)
            #expect(record.wait() == Array(0..<100))
        }
    }

    @Test func `the handlers of a chain run in order in a Foundation queue`() throws {
        let plain = OperationQueue()
        let record = Record(expecting: 40)
        var chain: [HTTPRequestOperation] = []
        for number in 0..<40 {
            let next = operation(number, noting: record)
            if number % 2 == 1 { next.prepare = { _ in throw Refusal() } }
            if let last = chain.last { next.addDependency(last) }
            chain.append(next)
        }
        plain.addOperations(chain, waitUntilFinished: false)
        #expect(record.wait() == Array(0..<40))
    }

    /// If code that observes the end of an operation ends another one, their handlers run in the same order.
    @Test func `the handlers of operations ended by another operation run after its own`() throws {
        for _ in 0..<200 {
            let record = Record(expecting: 2)
            let (first, second) = (operation(0, noting: record), operation(1, noting: record))
            second.pause()
            queue.addOperations([first, second], waitUntilFinished: false)
            first.waitUntilFinished()
            second.cancel()
            #expect(record.wait() == [0, 1])
        }
    }

    /// An operation that pauses at its end until the test continues it.
    private final class HeldAtItsEnd: HTTPRequestOperation, @unchecked Sendable {
        let isAtEnd = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)

        override func proceed(after transition: AtomicLifecycle.Transition) {
            if transition.new.state == .finished {
                isAtEnd.signal()
                mayEnd.wait()
            }
            super.proceed(after: transition)
        }
    }

    @Test func `waiting for an operation ends when its handlers have been submitted`() throws {
        let record = Record(expecting: 2)
        let operation = HeldAtItsEnd(request: URLRequest(url: server.url("/quick")))
        operation.completionQueue = handlers
        operation.setCompletionHandler(
            success: { _, _ in record.note(0) }, failure: { _, _ in record.note(0) })
        queue.addOperation(operation)
        #expect(operation.isAtEnd.wait(timeout: .now() + 60) == .success)
        #expect(operation.isFinished)
        let hasReturned = DispatchSemaphore(value: 0)
        Thread.detachNewThread { [handlers] in
            operation.waitUntilFinished()
            handlers.async { record.note(1) }
            hasReturned.signal()
        }
        // The thread must still be waiting, so this wait takes its whole time.
        #expect(hasReturned.wait(timeout: .now() + 0.2) == .timedOut)
        operation.mayEnd.signal()
        #expect(record.wait() == [0, 1])
    }

    @Test func `a blocking handler does not delay others on a concurrent queue`() throws {
        let concurrent = DispatchQueue(label: "Convoy.Tests.Wide", attributes: .concurrent)
        let meeting = Meeting(of: 3)
        let record = Record(expecting: 3)
        let operations = (0..<3).map { number in
            let operation = operation(number, noting: record, queue: concurrent)
            operation.completionBlock = { #expect(meeting.arrive()) }
            return operation
        }
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(record.wait() != nil)
        #expect(meeting.wait())
    }

    @Test func `many handlers run in the order in which their operations finished`() throws {
        let count = PropertyBudget.rounds(1_000)
        let record = Record(expecting: count)
        queue.maxConcurrentOperationCount = 1
        for number in 0..<count {
            let next = operation(number, noting: record)
            if number % 10 != 0 { next.fail(with: Refusal()) }
            queue.addOperation(next)
        }
        #expect(record.wait() == Array(0..<count))
    }

    @Test func `a completion queue is released after its handlers have run`() throws {
        weak var left: DispatchQueue?
        do {
            let own = DispatchQueue(label: "Convoy.Tests.Own")
            left = own
            let record = Record(expecting: 200)
            let operations = (0..<200).map { number in
                let next = operation(number, noting: record, queue: own)
                if number % 2 == 0 { next.fail(with: Refusal()) }
                return next
            }
            queue.addOperations(operations, waitUntilFinished: false)
            #expect(record.wait() != nil)
        }
        try eventually(timeout: 20, "the queue to be released") { left == nil }
    }

    // MARK: Other observers of the end

    /// The handlers may run while the queue is still removing the operation. Waiting for the handlers waits for both.
    @Test func `an operation has left its queue when its handlers have run`() throws {
        for round in 0..<300 {
            let group = DispatchGroup()
            let queue = RequestOperationQueue()
            let record = Record(expecting: 1)
            let first = operation(0, noting: record)
            first.completionGroup = group
            if round % 2 == 0 { first.prepare = { _ in throw Refusal() } }
            queue.addOperation(first)
            let left = Signal()
            let counted = Locked(-1)
            first.whenDelivered {
                counted.withLock { $0 = queue.queuedOperationCount }
                left.fire()
            }
            #expect(left.wait())
            #expect(counted.withLock { $0 } == 0)
            #expect(group.wait(timeout: .now() + 100) == .success)
            #expect(record.wait() == [0])
        }
    }

    @Test func `a handler can release the last reference to its operation`() throws {
        for round in 0..<300 {
            let record = Record(expecting: 1)
            let held = Locked<HTTPRequestOperation?>(nil)
            weak var left: HTTPRequestOperation?
            do {
                let first = operation(0, noting: record)
                left = first
                if round % 2 == 0 { first.fail(with: Refusal()) }
                held.withLock { $0 = first }
                first.completionBlock = {
                    let last = held.withLock { $0.take() }
                    withExtendedLifetime(last) {}
                }
                first.start()
            }
            #expect(record.wait() == [0])
            try eventually(timeout: 20, "the operation to be released") { left == nil }
        }
    }

    @Test func `a batch completes after its members' handlers, including those of failed members`() throws {
        for _ in 0..<50 {
            let record = Record(expecting: 9)
            let members = (0..<8).map { number in
                let member = operation(number, noting: record)
                if number % 2 == 1 { member.prepare = { _ in throw Refusal() } }
                return member
            }
            let batch = URLConnectionOperation.batch(
                of: members, completionQueue: handlers, completion: { _ in record.note(8) })
            queue.addOperations(batch, waitUntilFinished: false)
            let order = try #require(record.wait())
            #expect(order.last == 8 && order.sorted() == Array(0...8))
        }
    }

    // MARK: Notifications

    @Test func `start precedes finish, and a dependency's finish precedes its dependents' start`() throws {
        let center = NotificationCenter.default
        let record = Record(expecting: 400)
        let chain = (0..<100).map { _ in operation(0, noting: Record(expecting: 0)) }
        let second = (0..<100).map { _ in operation(0, noting: Record(expecting: 0)) }
        for (index, operation) in second.enumerated() { operation.addDependency(chain[index]) }
        for operation in chain + second { operation.postsNotifications = true }
        for (index, operation) in (chain + second).enumerated() where index % 2 == 0 { operation.fail(with: Refusal()) }
        var numbers: [ObjectIdentifier: Int] = [:]
        for index in 0..<100 {
            numbers[ObjectIdentifier(chain[index])] = index * 10
            numbers[ObjectIdentifier(second[index])] = index * 10 + 2
        }
        let known = numbers
        let observers = [Notification.Name.networkingOperationDidStart, .networkingOperationDidFinish].enumerated().map {
            step, name in
            center.addObserver(forName: name, object: nil, queue: nil) { notification in
                guard let operation = notification.object as? HTTPRequestOperation,
                    let number = known[ObjectIdentifier(operation)]
                else { return }
                record.note(number + step)
            }
        }
        defer { for observer in observers { center.removeObserver(observer) } }
        queue.addOperations(chain + second, waitUntilFinished: false)
        let order = try #require(record.wait())
        for index in 0..<100 {
            #expect(order.filter { $0 / 10 == index } == (0..<4).map { index * 10 + $0 })
        }
    }
}
