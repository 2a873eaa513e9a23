import Foundation

/// Sets variables of this process's environment while a closure runs. Use it only in tests that run alone in their
/// process, because all threads share the environment.
public func withEnvironment<Result>(_ variables: [String: String], _ body: () throws -> Result) rethrows -> Result {
    let before = variables.keys.map { name in (name, getenv(name).map { String(cString: $0) }) }
    for (name, value) in variables { setenv(name, value, 1) }
    defer {
        for (name, value) in before {
            if let value { setenv(name, value, 1) } else { unsetenv(name) }
        }
    }
    return try body()
}
