import Foundation

/// Blocks that a turn of a run loop has for dispatch queues, handed over together at its end.
///
/// A turn may end many transfers. To wake a queue's thread for each costs more than the transfers do; it is woken
/// once for all of them.
package final class PostsOfTurn {
    package typealias Block = @Sendable () -> Void

    private var posts: [(queue: DispatchQueue, blocks: [Block])] = []

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// Runs a block on a queue: soon, where the caller is on a run loop's thread, with others of the same turn; else
    /// as `async` does. On a concurrent queue, none waits for another to have run.
    package static func post(to queue: DispatchQueue, _ block: @escaping Block) {
        guard let pointer = pthread_getspecific(key) else { return queue.async(execute: block) }
        Unmanaged<PostsOfTurn>.fromOpaque(pointer).takeUnretainedValue().add(block, for: queue)
    }

    func adoptThread() { pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque()) }

    func leaveThread() {
        flush()
        pthread_setspecific(Self.key, nil)
    }

    private func add(_ block: @escaping Block, for queue: DispatchQueue) {
        if let index = posts.firstIndex(where: { $0.queue === queue }) {
            posts[index].blocks.append(block)
        } else {
            posts.append((queue, [block]))
        }
    }

    /// Hands everything over. False if there was nothing.
    @discardableResult
    func flush() -> Bool {
        guard !posts.isEmpty else { return false }
        let all = posts
        posts.removeAll(keepingCapacity: true)
        for (queue, blocks) in all {
            if blocks.count == 1 {
                queue.async(execute: blocks[0])
            } else {
                Sequence(blocks, on: queue).begin()
            }
        }
        return true
    }

    /// Blocks for one queue. Each hands over to the next before it runs: a serial queue runs them in order without
    /// being woken again, and on a concurrent one a block that takes long holds up no other.
    private final class Sequence: @unchecked Sendable {
        // One block at a time has the index: handing over passes it on.
        private var blocks: [Block?]
        private var index = 0
        private let queue: DispatchQueue

        init(_ blocks: [Block], on queue: DispatchQueue) {
            self.blocks = blocks
            self.queue = queue
        }

        func begin() { queue.async { self.runNext() } }

        private func runNext() {
            guard let block = blocks[index].take() else { return }
            index += 1
            if index < blocks.count { begin() }
            block()
        }
    }
}
