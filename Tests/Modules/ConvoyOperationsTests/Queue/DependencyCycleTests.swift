import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that a dependency cycle is an error and does not cause a hang.
@Suite struct DependencyCycleTests {
    let queue = RequestOperationQueue()
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("/", .text("ok"))
    }

    private func blocks(_ count: Int) -> [ScheduledBlockOperation] { (0..<count).map { _ in ScheduledBlockOperation {} } }

    private func expectCycle(_ members: [ScheduledOperation], sourceLocation: SourceLocation = #_sourceLocation) {
        for member in members {
            #expect(eventually { member.isFinished }, sourceLocation: sourceLocation)
            #expect(
                member.cancellationReason as? RequestOperationQueueError == .dependencyCycle(count: members.count),
                sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [2, 3, 100]) func `the members of a dependency cycle are cancelled with that reason`(count: Int) {
        let members = blocks(count)
        for (index, member) in members.enumerated() { member.addDependency(members[(index + 1) % count]) }
        queue.addOperations(members, waitUntilFinished: false)
        expectCycle(members)
        #expect(queue.queuedOperationCount == 0)
    }

    @Test(arguments: [nil, RequestOperationQueue(), OperationQueue()])
    func `an operation that depends on itself is cancelled with that reason`(queue: OperationQueue?) {
        let operation = ScheduledBlockOperation {}
        operation.addDependency(operation)
        #expect(operation.isCancelled && operation.dependencies.isEmpty)
        if let queue { queue.addOperation(operation) } else { operation.start() }
        expectCycle([operation])
        #expect("\(RequestOperationQueueError.dependencyCycle(count: 1))" == "The operation depends on itself.")
    }

    @Test func `a cycle closed by a late dependency is detected`() {
        let members = blocks(3), gate = ScheduledBlockOperation {}
        members[0].addDependency(gate)
        members[1].addDependency(members[0])
        members[2].addDependency(members[1])
        queue.addOperations(members, waitUntilFinished: false)
        members[0].addDependency(members[2])
        expectCycle(members)
    }

    @Test func `requests in a cycle fail with the reason, and their dependents continue`() async throws {
        let operations = (0..<2).map { _ in HTTPRequestOperation(request: URLRequest(url: server.url("/"))) }
        operations[0].addDependency(operations[1])
        operations[1].addDependency(operations[0])
        let after = HTTPRequestOperation(request: URLRequest(url: server.url("/")))
        after.addDependency(operations[0])
        queue.addOperations(operations + [after], waitUntilFinished: false)
        for operation in operations {
            let error = await #expect(throws: URLError.self) { try await operation.finished() }
            #expect(error?.code == .cancelled && error?.localizedDescription.contains("cycle") == true)
        }
        try await after.finished()
        #expect(after.statusCode == 200 && server.requests.count == 1)
    }

    @Test func `a cycle is detected across two queues and among awaited operations`() async throws {
        let pair = blocks(2)
        pair[0].addDependency(pair[1])
        pair[1].addDependency(pair[0])
        queue.addOperation(pair[0])
        RequestOperationQueue().addOperation(pair[1])
        expectCycle(pair)
        for _ in 0..<200 {
            let operations = (0..<2).map { _ in HTTPRequestOperation(request: URLRequest(url: server.url("/"))) }
            operations[0].addDependency(operations[1])
            operations[1].addDependency(operations[0])
            let other = Task { try await operations[0].finished() }
            let error = await #expect(throws: URLError.self) { try await operations[1].finished() }
            #expect(error?.code == .cancelled)
            await #expect(throws: URLError.self) { try await other.value }
        }
        #expect(server.requests.isEmpty)
    }

    @Test func `operations that wait for another operation after their cycle was broken are not cancelled`() {
        let members = blocks(3), gate = ScheduledBlockOperation {}
        for member in members { member.addDependency(gate) }
        members[0].addDependency(members[1])
        members[1].addDependency(members[2])
        members[2].addDependency(members[0])
        members[2].removeDependency(members[0])
        queue.addOperations(members, waitUntilFinished: false)
        #expect(members.allSatisfy { !$0.isCancelled })
        queue.addOperation(gate)
        #expect(eventually { members.allSatisfy(\.isFinished) })
        #expect(members.allSatisfy { $0.cancellationReason == nil })
    }

    @Test(arguments: PropertyBudget.factor > 1 ? [1, 2, 3] : [2, 3])
    func `long chains in any order do not cause long searches`(order: Int) {
        let count = PropertyBudget.rounds(8_000), members = blocks(count)
        for index in 1..<count { members[index].addDependency(members[index - 1]) }
        queue.isSuspended = true
        var added = members
        if order == 2 { added.reverse() }
        if order == 3 {
            var generator = SystemRandomNumberGenerator()
            added.shuffle(using: &generator)
        }
        for member in added { queue.addOperation(member) }
        queue.isSuspended = false
        #expect(eventually { members.allSatisfy(\.isFinished) })
        #expect(members.allSatisfy { $0.cancellationReason == nil })
    }
}
