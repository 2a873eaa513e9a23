import Foundation
import FoundationNetworking

/// The validated requests of `convoy run`. All errors are found before anything is sent.
struct Manifest {
    struct Request {
        let id: String
        /// The complete request, ready to be sent.
        let request: URLRequest
        let url: URL
        let dependsOn: [String]
        /// A path below the output directory.
        let output: String?
    }

    /// The base URL of the requests.
    let baseURL: URL?
    let requests: [Request]
}

extension Manifest {
    /// Parses a manifest.
    ///
    /// - Throws: A usage error with the position of the first mistake.
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

/// The search for circular dependencies.
enum DependencyCycle {
    private enum Mark { case open, done }

    /// Returns the members of a cycle, in which each member depends on the next and the last on the first, or nil if
    /// there is no cycle.
    ///
    /// Does not use recursion, because a chain may be very long.
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

/// The output files of a manifest, including partial files. Adding an output checks that no two are the same, and that
/// no file is a parent directory of another.
struct OutputPaths {
    /// Two outputs that cannot both be written.
    enum Conflict: Equatable {
        case same(other: String)
        /// An output below a file of another output.
        case below(file: String, of: String, by: String)
    }

    /// The owner of each file.
    private var files: [Path: String] = [:]
    /// The owner of a file below each directory.
    private var directories: [Path: String] = [:]

    /// A path that is compared by its bytes, as the system does. `String` treats canonically equivalent strings as equal.
    private struct Path: Hashable {
        let bytes: [UInt8]
        init(_ text: some StringProtocol) { bytes = Array(text.utf8) }
    }

    /// Adds an output whose path has neither empty components nor dots.
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
