import ConvoyCookies
import Foundation

enum CookieCommands {
    struct Usage: Error {}

    /// Unbuffered, so that nothing is lost when the process is killed.
    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) throws {
        guard arguments.count >= 2 else { throw Usage() }
        let store = try CookieStore(file: URL(fileURLWithPath: arguments[0]))
        switch (arguments[1], arguments.dropFirst(2).first) {
        case ("write", let prefix?):
            let count = arguments.count > 3 ? Int(arguments[3]) ?? 0 : Int.max
            for number in 0..<count {
                let cookie = Cookie(
                    name: "\(prefix)\(number % 100)", value: "\(number)", domain: "\(prefix).example.org",
                    expires: Date(timeIntervalSinceNow: 86_400))
                guard store.setCookie(cookie) else { throw Usage() }
                try store.flush()
                say("\(number)")
            }
        case ("remove", let name?):
            for cookie in store.cookies where cookie.name == name { store.remove(cookie) }
            try store.flush()
        case ("list", nil):
            for cookie in store.cookies { say("\(cookie.name)=\(cookie.value)") }
        default: throw Usage()
        }
    }
}
