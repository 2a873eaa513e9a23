import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// The outcome of a request, or of one item of its `forEach`. All strings exclude the secrets of the run, except the
/// URLs in ``metrics`` and the error of ``Cause/exchange(_:)``.
public struct RequestOutcome: Sendable {
    /// The final state of a request.
    public enum State: String, Sendable {
        case succeeded, failed, skipped
        /// The request succeeded in an earlier run with the same inputs, and was not sent again.
        case kept
    }

    /// The reason why a request failed or was not sent.
    public enum Cause: Sendable {
        /// The response has an unexpected status.
        case status
        /// An expectation other than the status or a checksum is not met.
        case expectation
        /// The checksum of the bytes does not match.
        case checksum
        /// A capture found nothing.
        case capture
        /// A required value does not exist, or cannot be used where it is referenced.
        case value
        /// An awaited event or condition did not occur in time.
        case time
        /// The exchange failed.
        case exchange(any Error)
        /// A file could not be read or written.
        case file
        /// A dependency failed.
        case dependency
        /// The `when` condition is false.
        case condition
        /// The run was cancelled, or stopped after another failure.
        case cancelled
    }

    /// The ID in the manifest.
    public let id: String
    /// The item as a string, or nil for a request without `forEach`.
    public internal(set) var item: String?
    /// The number of the item, from 0, or nil for a request without `forEach`.
    public internal(set) var index: Int?
    /// The name of the manifest that contains the request, which may be an included one.
    public let manifest: String
    /// The line of the request in the manifest.
    public let line: Int
    /// The final state.
    public internal(set) var state = State.succeeded
    /// The reason why the request failed or was skipped, or nil after a success.
    public internal(set) var cause: Cause?
    /// All failures with the actual values, or the reason for skipping the request.
    public internal(set) var failures: [String] = []
    /// The positions in the manifest of the failed checks that are expressions, by their indices in ``failures``: the line
    /// and the column, from 1.
    package internal(set) var failurePositions: [Int: (line: Int, column: Int)] = [:]
    /// The method of the last request.
    public internal(set) var method: String?
    /// The URL of the last request, or nil if nothing was sent.
    public internal(set) var url: String?
    /// The status of the last response.
    public internal(set) var status: Int?
    /// The total size of the response bodies, in bytes.
    public internal(set) var bytes: Int64 = 0
    /// The path of the output file.
    public internal(set) var file: String?
    /// The number of requests sent. Polling and paging send several requests.
    public internal(set) var requestCount = 0
    /// Whether further pages remained when the page limit was reached.
    package internal(set) var hasMorePages = false
    /// The number of retries.
    public internal(set) var retryCount = 0
    /// The start time, or nil if the request was not sent.
    public internal(set) var began: Date?
    /// The duration, in seconds.
    public internal(set) var seconds: Double = 0
    /// The time when all dependencies had ended.
    public internal(set) var ready: Date?
    /// The metrics of each request that was sent, including those of pages and polls, if they are collected.
    public internal(set) var metrics: [OperationMetrics] = []
    /// The captured values, as JSON.
    public internal(set) var captures: [(name: String, value: String)] = []

    /// The ID, followed by the item in brackets.
    public var name: String { item.map { "\(id)[\($0)]" } ?? id }
    /// Whether the outcome counts as a success for dependent requests.
    public var isSuccess: Bool { state == .succeeded || state == .kept }

    /// Returns the failures, each with its position if that differs from the position of the request.
    var locatedFailures: [String] {
        failures.enumerated().map { index, text in
            failurePositions[index].map { "\(manifest):\($0.line):\($0.column): \(text)" } ?? text
        }
    }

    /// A note that further pages remained.
    package var pagesNote: String { "stopped after \(requestCount) pages; there are more" }

    init(_ plan: RequestPlan, item: JSON? = nil, index: Int? = nil) {
        id = plan.id
        manifest = plan.manifest
        line = plan.line
        self.item = item?.text
        self.index = index
    }
}

/// A reason why an item did not succeed.
struct FailureReason: Sendable {
    var cause: RequestOutcome.Cause
    var text: String
    /// The position of the check in the manifest, or nil for that of the request.
    var position: ManifestDocument.Position?
}

/// A received response.
package struct WorkflowResponse: Sendable {
    /// The HTTP version: `HTTP/1.1`.
    package let version: String
    /// The HTTP status code.
    package let status: Int
    /// The header fields, as received.
    package let fields: [(name: String, value: String)]
    /// The body, or the data of an event.
    package let body: Data

    /// The body, to be shown to people.
    package var readable: ReadableBody {
        let type = fields.first { ASCII.equalIgnoringCase($0.name.utf8, "Content-Type".utf8) }?.value
        return ReadableBody(body, contentType: type)
    }
}

/// A body with its media type, to be shown to people.
package struct ReadableBody: Sendable {
    package let data: Data
    /// The media type without parameters, or an empty string.
    package let mediaType: String
    private let label: String?

    package init(_ data: Data, contentType: String?) {
        self.data = data
        let parts = (contentType ?? "").split(separator: ";" as Character).map { $0.trimmingCharacters(in: .whitespaces) }
        mediaType = parts.first?.lowercased() ?? ""
        label = parts.dropFirst().first { $0.lowercased().hasPrefix("charset=") }
            .map { $0.dropFirst("charset=".count).trimmingCharacters(in: ["\""]) }
    }

    /// Returns the media type of a response without parameters, or an empty string.
    package static func mediaType(of head: ResponseHead) -> String {
        ReadableBody(Data(), contentType: head["Content-Type"]).mediaType
    }

    /// The body as JSON, or nil if it is not JSON.
    package var json: JSON? { try? JSON(body: data, label: label) }

    /// The body as text, or nil if it is not text in its charset.
    package var text: String? { Charset.ofText(data, label: label).text(of: data) }
}

extension JSON {
    /// Parses the JSON of a body.
    ///
    /// - Parameter label: The charset that the response specifies, or nil.
    init(body: Data, label: String?) throws(EvaluationError) {
        guard !body.isEmpty else { throw EvaluationError(message: "the body is empty") }
        let charset = Charset.ofJSON(body, label: label)
        guard let bytes = charset.isUTF8 ? body : charset.text(of: body).map({ Data($0.utf8) }) else {
            throw EvaluationError(message: "the body is not JSON: it is not text in \(charset.name)")
        }
        do throws(JSONSyntaxError) {
            self = try JSON(parsing: bytes)
        } catch {
            throw EvaluationError(message: "the body is not JSON: \(error.reason)")
        }
    }
}

/// An event of a run.
public enum WorkflowEvent: Sendable {
    /// The start of a request, or of an item of it. The outcome contains only its names.
    case began(RequestOutcome)
    /// The end of a request, or of an item of it.
    case finished(RequestOutcome)
    /// A wait before a retry or the next poll. The string gives the reason.
    case waiting(RequestOutcome, String)
}

/// The result of a run.
public struct WorkflowResult: Sendable {
    /// All outcomes, in the order of the manifest and of the items.
    public var outcomes: [RequestOutcome] = []
    /// The date at which the run started.
    public var began = Date()
    /// The duration, in seconds.
    public var seconds: Double = 0
    /// The write failures of the files that the manifest names (`cookie-jar`, `hsts`), each on one line.
    public var storeFailures: [String] = []

    /// Creates a result without outcomes.
    public init() {}

    /// The outcomes of the requests and items that failed, in the same order.
    public var failures: [RequestOutcome] { outcomes.filter { $0.state == .failed } }
}
