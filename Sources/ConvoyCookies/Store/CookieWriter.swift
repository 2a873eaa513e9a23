import ConvoyDatabase
import ConvoySupport
import Foundation
import Synchronization

/// Lets a file follow the cookies of a store, and the store those that others write into the file, on a queue of its own.
final class CookieWriter: Sendable {
    private let queue = DispatchQueue(label: "Convoy.CookieStore", qos: .utility)
    /// Used on the queue only.
    private struct File: @unchecked Sendable { let file: CookieFile }
    private let shared: File
    /// When to look next whether others have changed the file.
    private let nextLook = Atomic<MonotonicTime>(0)

    private static let secondsUntilWriting = 0.1
    private static let timeBetweenLooks: MonotonicTime = 1_000_000_000
    /// How many rows are taken over at a time, so that nobody who needs a cookie waits for long.
    private static let rowsAtOnce = 64

    init(path: String) {
        shared = File(file: CookieFile(path: path))
    }

    /// Opens the file and takes over its cookies. Blocks.
    func open(_ store: CookieStore) -> CookieStoreError? {
        nextLook.store(MonotonicClock.now + Self.timeBetweenLooks, ordering: .relaxed)
        return queue.sync { synchronize(store) }
    }

    func flush(_ store: CookieStore) -> CookieStoreError? { queue.sync { synchronize(store) } }

    /// The store is retained until it is written, so that nothing is lost with the last reference to it.
    func writeLater(_ store: CookieStore) {
        queue.asyncAfter(deadline: .now() + Self.secondsUntilWriting) { _ = self.synchronize(store) }
    }

    /// Takes over what others have changed, if nobody has looked for about a second. Does not wait for it.
    func lookForNews(_ store: CookieStore) {
        let (now, due) = (MonotonicClock.now, nextLook.load(ordering: .relaxed))
        guard now >= due,
            nextLook.compareExchange(expected: due, desired: now + Self.timeBetweenLooks, ordering: .relaxed).exchanged
        else { return }
        queue.async { [weak store] in
            guard let store else { return }
            if self.shared.file.isReplaced {
                _ = self.synchronize(store)
            } else if let news = try? self.shared.file.news() {
                // If it cannot be read now, the next write will say so.
                self.take(news, store)
            }
        }
    }

    // MARK: On the queue

    private func synchronize(_ store: CookieStore) -> CookieStoreError? {
        let file = shared.file
        // A file that was replaced or damaged is made anew, once.
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
        // Also for an empty batch: it clears what the state has noted.
        defer { store.state.withLock { $0.finishWriting(isWritten: isWritten) } }
        try file.open()
        if batch.isEmpty {
            if let news = try file.news() { take(news, store) }
        } else {
            take(try file.write(batch, at: store.now()), store)
        }
        isWritten = true
    }

    /// Makes the next attempt possible.
    ///
    /// - Returns: why there is no point in one.
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

    private func take(_ news: CookieFile.News, _ store: CookieStore) {
        let now = store.now()
        store.change { $0.merge(cleared: news.cleared) }
        var rest = news.rows[...]
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
