import ConvoyDatabase
import ConvoySupport
import Foundation
import Synchronization

/// Synchronizes a store with its file, in both directions, on a queue of its own.
final class CookieWriter: Sendable {
    private let queue = DispatchQueue(label: "Convoy.CookieStore", qos: .utility)
    /// Used on the queue only.
    private struct File: @unchecked Sendable { let file: CookieFile }
    private let shared: File
    /// When to check the file for changes by other processes next.
    private let nextLook = Atomic<MonotonicTime>(0)

    private static let secondsUntilWriting = 0.1
    private static let timeBetweenLooks: MonotonicTime = 1_000_000_000
    /// The number of rows applied per lock, so that lookups do not wait for long.
    private static let rowsAtOnce = 64

    init(path: String) {
        shared = File(file: CookieFile(path: path))
    }

    /// Opens the file and loads its cookies into the store. Blocks.
    func open(_ store: CookieStore) -> CookieStoreError? {
        nextLook.store(MonotonicClock.now + Self.timeBetweenLooks, ordering: .relaxed)
        return queue.sync { synchronize(store) }
    }

    func flush(_ store: CookieStore) -> CookieStoreError? { queue.sync { synchronize(store) } }

    /// Schedules a write. It retains the store, so that releasing the last reference loses no changes.
    func writeLater(_ store: CookieStore) {
        queue.asyncAfter(deadline: .now() + Self.secondsUntilWriting) { _ = self.synchronize(store) }
    }

    /// Schedules a read of changes by other processes, about once a second at most. Does not wait for it.
    func checkForChanges(_ store: CookieStore) {
        let (now, due) = (MonotonicClock.now, nextLook.load(ordering: .relaxed))
        guard now >= due,
            nextLook.compareExchange(expected: due, desired: now + Self.timeBetweenLooks, ordering: .relaxed).exchanged
        else { return }
        queue.async { [weak store] in
            guard let store else { return }
            if self.shared.file.isReplaced {
                _ = self.synchronize(store)
            } else if let changes = try? self.shared.file.readChanges() {
                // If reading fails, the next write reports the error.
                self.take(changes, store)
            }
        }
    }

    // MARK: On the queue

    private func synchronize(_ store: CookieStore) -> CookieStoreError? {
        let file = shared.file
        // Retries once with a new file if the file was replaced or damaged.
        for attempt in 0..<2 {
            do throws(DatabaseError) {
                try exchange(file, store)
                store.state.withLock { $0.failure = nil }
                return nil
            } catch {
                let failure = recover(file, store, error)
                if failure == nil, attempt == 0 { continue }
                let reported = failure ?? CookieStoreError(error)
                store.state.withLock { $0.failure = reported }
                return reported
            }
        }
        return nil
    }

    private func exchange(_ file: CookieFile, _ store: CookieStore) throws(DatabaseError) {
        if file.isReplaced {
            file.close()
            store.state.withLock { $0.startAnew() }
        }
        let batch = store.state.withLock { $0.startWriting() }
        var isWritten = false
        // Also for an empty batch, to reset the state.
        defer { store.state.withLock { $0.finishWriting(isWritten: isWritten) } }
        try file.open()
        if batch.isEmpty {
            if let changes = try file.readChanges() { take(changes, store) }
        } else {
            take(try file.write(batch, at: store.now()), store)
        }
        isWritten = true
    }

    /// Prepares another attempt after an error.
    ///
    /// - Returns: The error if another attempt would be useless; nil otherwise.
    private func recover(_ file: CookieFile, _ store: CookieStore, _ error: DatabaseError) -> CookieStoreError? {
        switch error.code {
        case .replaced:
            file.close()
        case .damaged:
            do throws(DatabaseError) {
                _ = try file.setAside(after: error)
            } catch {
                return CookieStoreError(error)
            }
        default:
            return CookieStoreError(error)
        }
        store.state.withLock { $0.startAnew() }
        return nil
    }

    private func take(_ changes: CookieFile.RemoteChanges, _ store: CookieStore) {
        let now = store.now()
        store.change { $0.merge(cleared: changes.cleared) }
        var rest = changes.rows[...]
        while !rest.isEmpty {
            let rows = rest.prefix(Self.rowsAtOnce)
            rest = rest.dropFirst(rows.count)
            store.change { state in
                var isChanged = false
                for row in rows where state.merge(row, at: now) { isChanged = true }
                return isChanged
            }
        }
    }
}
