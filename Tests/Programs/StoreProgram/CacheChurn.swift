import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// Stores and reads responses whose bodies describe themselves.
struct CacheChurn {
    struct Report {
        var reads = 0
        var torn = 0
    }

    static let keyCount = 40
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    func run(_ cache: HTTPCache, seconds: Double) -> Report {
        var churn = self
        var report = Report()
        let end = Date(timeIntervalSinceNow: seconds)
        while Date() < end {
            let key = Int.random(in: 0..<Self.keyCount, using: &churn.random)
            switch Int.random(in: 0..<10, using: &churn.random) {
            case 0..<4:
                let length = [100, 5000, 40_000, 200_000].randomElement(using: &churn.random) ?? 0
                churn.store(cache, key: key, length: length)
            case 4:
                Self.remove(cache, key: key)
            default:
                let one = churn.readAll(cache, keys: key..<key + 1)
                report.reads += one.reads
                report.torn += one.torn
            }
        }
        return report
    }

    mutating func store(_ cache: HTTPCache, key: Int, length: Int) {
        // The number begins with the key, so that a body under a wrong key is detected as well.
        let number = UInt64(key) << 32 | random.next() >> 32
        let body = SelfDescribingBody.make(number: number, length: length)
        let exchange = cache.exchange(for: Self.request(key, .reload))
        let head = CachedHead(
            statusCode: 200, fields: [("Cache-Control", "max-age=1000"), ("Content-Length", "\(body.count)")])
        guard case .store(let writer) = exchange.receive(head) else { return }
        body.withUnsafeBytes { writer.write($0) }
        let done = DispatchSemaphore(value: 0)
        writer.finish { done.signal() }
        done.wait()
    }

    static func remove(_ cache: HTTPCache, key: Int) {
        if let url = URL(string: "http://churn.test/\(key)") { cache.remove(for: url) }
    }

    func readAll(_ cache: HTTPCache, keys: Range<Int>) -> Report {
        var report = Report()
        for key in keys {
            let answer = Box<(any ServableResponse)?>(nil)
            cache.exchange(for: Self.request(key, .storedOnly)).lookup { found in
                if case .hit(let stored, _) = found { answer.set(stored) } else { answer.set(nil) }
            }
            guard let stored = answer.wait() else { continue }
            let body = Box<[UInt8]?>(nil)
            stored.read(at: 0, count: stored.length) { result in body.set(try? result.get()) }
            // An unreadable body counts as a miss.
            guard let bytes = body.wait() else { continue }
            report.reads += 1
            if SelfDescribingBody.number(bytes).map({ $0 >> 32 }) != UInt64(key) { report.torn += 1 }
        }
        return report
    }

    private static func request(_ key: Int, _ policy: CachePolicy) -> CacheRequest {
        CacheRequest(
            method: "GET", address: "http://churn.test/\(key)", fields: [], policy: policy, partition: "",
            hasBody: false)
    }

    /// A value that another thread waits for.
    private final class Box<Value: Sendable>: Sendable {
        private let value: Locked<Value>
        private let isSet = DispatchSemaphore(value: 0)

        init(_ value: Value) { self.value = Locked(value) }

        func set(_ new: Value) {
            value.withLock { $0 = new }
            isSet.signal()
        }

        func wait() -> Value {
            isSet.wait()
            return value.withLock { $0 }
        }
    }
}
