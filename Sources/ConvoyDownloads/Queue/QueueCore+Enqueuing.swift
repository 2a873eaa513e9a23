import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// How entries get into a queue.
extension QueueCore {
    /// A request that is ready to be stored.
    private struct New: Sendable {
        let id: UUID
        var stored: StoredRequest
        let secrets: [HeaderLine]
        let request: any StorableRequest
    }

    /// Stores requests, all or none, and makes their operations. Blocks on the disk.
    func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [any QueuedOperation] {
        guard !requests.isEmpty else { return [] }
        var new = try requests.map { request throws(DownloadQueueError) in try prepare(request) }
        try checkOrder(new)
        // Once before anything is written, and once when it is decided.
        try state.withLock { state throws(DownloadQueueError) in try check(new, state) }
        let stored = try bodies.store(new.map { $0.request.body })
        for (index, body) in stored.enumerated() { new[index].stored.setBody(body) }
        do throws(DownloadQueueError) {
            let made = try new.map { new throws(DownloadQueueError) in
                let priority = Int64(new.request.priority.rawValue)
                return (new.id, try makeOperation(new.id, new.stored, secrets: new.secrets, priority: priority))
            }
            let records = try insert(new)
            for (record, (_, operation)) in zip(records, made) { prepare(operation, record) }
            attach(made)
            return made.map(\.1)
        } catch {
            bodies.remove(stored.compactMap(\.self))
            throw error
        }
    }

    private func prepare(_ request: any DurableRequest) throws(DownloadQueueError) -> New {
        guard let request = request as? any StorableRequest else {
            throw .unsuitableRequest("\(type(of: request)) is not a DownloadRequest or an OutboxRequest.")
        }
        let (stored, secrets) = try StoredRequest.storing(request, classifier: manager.connectionConfiguration.secrets)
        return New(id: request.id, stored: stored, secrets: secrets, request: request)
    }

    /// Whether those that are enqueued together depend on each other in a circle. (On later ones nobody can depend.)
    private func checkOrder(_ new: [New]) throws(DownloadQueueError) {
        var waiting: [UUID: Int] = [:], dependents: [UUID: [UUID]] = [:]
        for entry in new {
            guard waiting.updateValue(0, forKey: entry.id) == nil else { throw .duplicate(entry.id) }
        }
        for entry in new {
            for dependency in entry.request.dependencies where waiting[dependency] != nil {
                waiting[entry.id, default: 0] += 1
                dependents[dependency, default: []].append(entry.id)
            }
        }
        var free = new.map(\.id).filter { waiting[$0] == 0 }
        var count = 0
        while let next = free.popLast() {
            count += 1
            for dependent in dependents[next] ?? [] {
                waiting[dependent, default: 0] -= 1
                if waiting[dependent] == 0 { free.append(dependent) }
            }
        }
        guard count < new.count, let one = new.first(where: { waiting[$0.id, default: 0] > 0 }) else { return }
        throw .dependencyCycle(one.id)
    }

    private func check(_ new: [New], _ state: borrowing State) throws(DownloadQueueError) {
        if state.isClosing { throw .closed }
        let ids = Set(new.map(\.id))
        for entry in new {
            if state.table[entry.id] != nil { throw .duplicate(entry.id) }
            for dependency in entry.request.dependencies where !ids.contains(dependency) {
                // One that is being enqueued now may not come to be.
                guard let record = state.table[dependency], !record.isNew else {
                    throw .unknownDependency(dependency, of: entry.id)
                }
            }
        }
    }

    /// Writes the rows, and waits for that. Until then nobody sees the entries.
    private func insert(_ new: [New]) throws(DownloadQueueError) -> [QueueTable.Record] {
        let receipt = WriteReceipt()
        let records = try state.withLock { state throws(DownloadQueueError) -> [QueueTable.Record] in
            try check(new, state)
            let (first, now) = (state.table.takeSequence(new.count), Self.now)
            let records = new.enumerated().map { index, entry in
                var status = QueueStatus(changed: now)
                status.priority = Int64(entry.request.priority.rawValue)
                let row = QueueRow(
                    id: entry.id, sequence: first + Int64(index), request: entry.stored,
                    dependencies: entry.request.dependencies, policy: entry.request.failedDependencyPolicy,
                    tag: entry.request.tag, enqueued: now, status: status)
                return QueueTable.Record(row: row, isNew: true)
            }
            state.table.insert(records)
            for entry in new where !entry.secrets.isEmpty { state.secrets[entry.id] = entry.secrets }
            writer.submit(records.map { .insert($0.row) }, isKept: false) { receipt.note($0) }
            return records
        }
        do throws(DownloadQueueError) {
            try receipt.wait()
            return records
        } catch {
            update { state in
                for record in records {
                    state.table.remove(record.row.id)
                    state.secrets[record.row.id] = nil
                }
            }
            throw error
        }
    }
}

extension StoredRequest {
    mutating func setBody(_ body: StoredBody?) {
        guard case .send(var sending) = work else { return }
        sending.body = body
        work = .send(sending)
    }
}
