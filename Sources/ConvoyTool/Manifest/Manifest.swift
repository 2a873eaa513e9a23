import Foundation
import FoundationNetworking

/// The checked requests of `convoy run`: all errors are found before anything is sent.
struct Manifest {
    struct Request {
        let id: String
        /// The complete request, ready to be sent.
        let request: URLRequest
        let url: URL
        /// Header fields that are removed on a redirect to another origin.
        let secretHeaders: Set<String>
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
