import ConvoyCookies
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A thread that sets, removes and reads the cookies of its own host, and checks them against the expected values.
struct CookieChurn: Sendable {
    let host: String
    private(set) var left: [String: String] = [:]
    private(set) var reads = 0
    private(set) var wrongReads = 0

    /// Runs threads on one store for the given number of seconds.
    static func run(_ store: CookieStore, prefix: String, seconds: Double, threads: Int) -> [CookieChurn] {
        let end = MonotonicClock.now + MonotonicTime(seconds * 1e9)
        let churns = Locked<[CookieChurn]>([])
        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            var churn = CookieChurn(host: "\(prefix)\(thread).example")
            churn.run(store, until: end)
            churns.withLock { [churn] in $0.append(churn) }
        }
        return churns.withLock { $0 }
    }

    private init(host: String) { self.host = host }

    private mutating func run(_ store: CookieStore, until end: MonotonicTime) {
        guard let url = URL(string: "https://\(host)/") else { return }
        var random = SystemRandomNumberGenerator()
        var number = 0
        while MonotonicClock.now < end {
            number += 1
            let name = "n\(Int.random(in: 0..<20, using: &random))"
            let cookie = Cookie(
                name: name, value: "\(number)", domain: host, expires: Date(timeIntervalSinceNow: 86_400))
            if Int.random(in: 0..<4, using: &random) == 0 {
                store.remove(cookie)
                left[name] = nil
            } else {
                store.setCookie(cookie)
                left[name] = cookie.value
            }
            if number % 16 == 0 {
                reads += 1
                let found = store.cookies(for: url).map { ($0.name, $0.value) }
                if Dictionary(found, uniquingKeysWith: { one, _ in one }) != left || found.count != left.count {
                    wrongReads += 1
                }
            }
            if number % 200 == 0 { try? store.flush() }
        }
    }
}
