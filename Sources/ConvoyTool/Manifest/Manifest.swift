import Foundation
import FoundationNetworking

/// The checked requests of `convoy run`: all errors are found before anything is sent.
struct Manifest {
    struct Request {
        let id: String
        /// The complete request, ready to be sent.
        let request: URLRequest
        let url: URL
        let dependsOn: [String]
        /// A path under the output directory.
        let output: String?
    }

    /// The URL that the others are relative to.
    let baseURL: URL?
    let requests: [Request]
}

extension Manifest {
    /// Parses a manifest.
    ///
    /// - Throws: a usage error with the position of the first mistake.
    init(_ data: Data, name: String, timeout: Double?) throws(ToolError) {
        do throws(JSONProblem) {
            var reader = ManifestReader(timeout: timeout)
            requests = try reader.requests(in: try JSONValue(parsing: data))
            baseURL = reader.baseURL
        } catch {
            let place = "\(Printable.line(name)):\(error.position.line):\(error.position.column)"
            throw .usage("\(place): \(error.text)")
        }
    }
}

/// Finds requests that wait for each other, and would wait forever.
enum DependencyCycle {
    private enum Mark { case open, done }

    /// The members of a cycle, each waiting for the next and the last for the first; nil if there is none.
    ///
    /// Without recursion, as a chain may be very long.
    static func find(in edges: [String: [String]], order: [String]) -> [String]? {
        var marks: [String: Mark] = [:]
        for start in order where marks[start] == nil {
            var path: [(node: String, next: Int)] = [(start, 0)]
            marks[start] = .open
            while let (node, next) = path.last {
                let neighbours = edges[node] ?? []
                guard next < neighbours.count else {
                    marks[node] = .done
                    path.removeLast()
                    continue
                }
                path[path.count - 1].next += 1
                let neighbour = neighbours[next]
                switch marks[neighbour] {
                case .done: continue
                case .open: return path.drop { $0.node != neighbour }.map(\.node)
                case nil:
                    marks[neighbour] = .open
                    path.append((neighbour, 0))
                }
            }
        }
        return nil
    }
}

/// The files of a manifest's outputs, including partial files. Checks that no two are the same, and none is a directory
/// of another.
struct OutputPaths {
    /// Two outputs that cannot both be written.
    enum Conflict: Equatable {
        case same(other: String)
        /// One output is below a file of another.
        case below(file: String, of: String, by: String)
    }

    /// The owner of each file.
    private var files: [Path: String] = [:]
    /// For each directory, the owner of a file below it.
    private var directories: [Path: String] = [:]

    /// A path compared by its bytes, as by the system; `String` considers canonically equivalent strings equal.
    private struct Path: Hashable {
        let bytes: [UInt8]
        init(_ text: some StringProtocol) { bytes = Array(text.utf8) }
    }

    /// Adds an output, whose path has neither empty components nor dots.
    mutating func add(_ path: String, of id: String) -> Conflict? {
        let names = [path] + FileNames.companions(of: path)
        for name in names {
            if let other = files[Path(name)] { return .same(other: other) }
            if let other = directories[Path(name)] { return .below(file: name, of: id, by: other) }
        }
        var parents: [Path] = []
        for index in path.utf8.indices where path.utf8[index] == UInt8(ascii: "/") {
            let parent = path[..<index]
            if let other = files[Path(parent)] { return .below(file: String(parent), of: other, by: id) }
            parents.append(Path(parent))
        }
        for name in names { files[Path(name)] = id }
        for parent in parents { directories[parent] = id }
        return nil
    }
}
