// Mirrors a directory of a web server that lists its files as JSON (nginx: autoindex_format json).
//
//     ExampleSync http://127.0.0.1:8080/files/ local-directory

import Convoy
import Foundation

struct Entry: Codable, Sendable {
    var name: String
    var type: String
    var size: Int?
}

guard CommandLine.arguments.count == 3, let remote = URL(string: CommandLine.arguments[1]) else {
    print("usage: ExampleSync URL DIRECTORY")
    exit(2)
}
let local = URL(fileURLWithPath: CommandLine.arguments[2], isDirectory: true)
let manager = HTTPRequestOperationManager(baseURL: remote)
manager.maxConcurrentOperationCountPerHost = 6
manager.retryPolicy = RetryPolicy(maximumRetryCount: 5)
manager.idleTimeout = 20

/// Returns whether the local file exists and has the same size as the remote one.
func isCurrent(_ entry: Entry) -> Bool {
    let attributes = try? FileManager.default.attributesOfItem(atPath: local.appendingPathComponent(entry.name).path)
    return (attributes?[.size] as? Int) == entry.size
}

do {
    try FileManager.default.createDirectory(at: local, withIntermediateDirectories: true)
    let entries: [Entry] = try await manager.get("", timeout: 30)
    let missing = entries.filter { $0.type == "file" && !$0.name.contains("/") && !isCurrent($0) }
    var failures = 0
    // The manager's queue enforces its limits, regardless of the number of tasks.
    await withTaskGroup { group in
        for entry in missing {
            group.addTask { () -> String? in
                do {
                    try await manager.download(
                        entry.name, to: local.appendingPathComponent(entry.name), existing: .replace)
                    return nil
                } catch {
                    return "\(entry.name): \(error)"
                }
            }
        }
        for await case let failure? in group {
            failures += 1
            print(failure)
        }
    }
    print("\(missing.count - failures) of \(missing.count) files fetched, \(entries.count - missing.count) unchanged")
    exit(failures == 0 ? 0 : 1)
} catch {
    print(error)
    exit(1)
}
