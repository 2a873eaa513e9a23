import ConvoySupport
import ConvoyTestSupport
import Foundation

@testable import ConvoyCache

/// Reads the responses stored by `StoreProgram cache`.
enum CacheChurnReader {
    static func readAll(_ cache: HTTPCache) -> (keys: Set<Int>, torn: Int) {
        var (keys, torn) = (Set<Int>(), 0)
        for key in 0..<40 {
            let request = CacheRequest(
                method: "GET", address: "http://churn.test/\(key)", fields: [], policy: .storedOnly, partition: "",
                hasBody: false)
            let done = DispatchSemaphore(value: 0)
            let body = Locked<Result<[UInt8], any Error>?>(nil)
            cache.exchange(for: request).lookup { answer in
                guard case .hit(let stored, _) = answer else {
                    done.signal()
                    return
                }
                stored.read(at: 0, count: stored.length) { result in
                    body.withLock { $0 = result }
                    done.signal()
                }
            }
            done.wait()
            // A process that could open a file must be able to read it, because no files are damaged here.
            switch body.withLock({ $0 }) {
            case nil: continue
            case .success(let bytes):
                keys.insert(key)
                if SelfDescribingBody.number(bytes).map({ $0 >> 32 }) != UInt64(key) { torn += 1 }
            case .failure: torn += 1
            }
        }
        return (keys, torn)
    }
}
