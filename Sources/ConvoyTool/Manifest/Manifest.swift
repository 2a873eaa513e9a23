import Foundation
import FoundationNetworking

/// The requests that `convoy run` runs, checked: whatever is wrong with them is known before anything is sent.
struct Manifest {
    struct Request {
        let id: String
        /// Whole, with its parameters, ready to be sent.
        let request: URLRequest
        let url: URL
        /// Header fields that stay behind when a redirect leads elsewhere.
        let secretHeaders: Set<String>
        let dependsOn: [String]
        /// A path under the output directory.
        let output: String?
    }

    let requests: [Request]
}

extension Manifest {
    /// Reads a manifest.
    ///
    /// - Throws: wrong usage, with the place of the first mistake.
    init(_ data: Data, name: String, timeout: Double?) throws(ToolError) {
        do throws(JSONProblem) {
            var reader = ManifestReader(timeout: timeout)
            requests = try reader.requests(in: try JSONValue(parsing: data))
        } catch {
            let place = "\(Printable.line(name)):\(error.position.line):\(error.position.column)"
            throw .usage("\(place): \(error.text)")
        }
    }
}
