import ConvoyCookies
import Foundation

enum CookieCommands {
    struct Usage: Error {}

    /// Writes a line without buffering, so that nothing is lost when the process is killed.
    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) throws {
        guard arguments.count >= 2 else { throw Usage() }
        let store = try CookieStore(file: URL(fileURLWithPath: arguments[0]))
        switch (arguments[1], arguments.dropFirst(2).first) {
        case ("write", let prefix?):
            let count = arguments.count > 3 ? Int(arguments[3]) ?? 0 : Int.max
            for number in 0..<count {
                let cookie = Cookie(
                    name: "\(prefix)\(number % 100)", value: "\(number)", domain: "\(prefix).example",
                    expires: Date(timeIntervalSinceNow: 86_400))
                guard store.setCookie(cookie) else { throw Usage() }
                try store.flush()
                say("\(number)")
            }
        case ("remove", let name?):
            for cookie in store.cookies where cookie.name == name { store.remove(cookie) }
            try store.flush()
        case ("full", nil):
            // Limiting the size of its files simulates a full disk for this process.
            var before = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
            signal(SIGXFSZ, SIG_IGN)
            store.setCookie(Cookie(name: "a", value: "1", domain: "full.example", expires: .distantFuture))
            try store.flush()
            for size in [rlim_t(1), 8192, 16384] {
                var small = rlimit(rlim_cur: size, rlim_max: before.rlim_max)
                setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &small)
                let value = String(repeating: "x", count: 4000)
                for number in 0..<50 {
                    store.setCookie(
                        Cookie(name: "b\(number)", value: value, domain: "full.example", expires: .distantFuture))
                }
                do { try store.flush() } catch { say("\(error)") }
                if store.failure == nil { say("no failure") }
                say("\(store.cookies.count)")
            }
            setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
            store.setCookie(Cookie(name: "c", value: "1", domain: "full.example", expires: .distantFuture))
            try store.flush()
            say(store.failure == nil ? "written" : "failed")
        case ("churn", let prefix?):
            guard arguments.count == 5, let seconds = Double(arguments[3]), let threads = Int(arguments[4])
            else { throw Usage() }
            let churns = CookieChurn.run(store, prefix: prefix, seconds: seconds, threads: threads)
            try store.flush()
            say("\(churns.reduce(0) { $0 + $1.wrongReads }) of \(churns.reduce(0) { $0 + $1.reads }) wrong")
            for churn in churns {
                for (name, value) in churn.left { say("\(churn.host) \(name)=\(value)") }
            }
        case ("list", nil):
            for cookie in store.cookies { say("\(cookie.name)=\(cookie.value)") }
        default: throw Usage()
        }
    }
}
