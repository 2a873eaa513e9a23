import Foundation

/// Variables of this process's environment, for as long as a closure runs. The environment is every thread's: only for
/// tests that have the process to themselves.
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
