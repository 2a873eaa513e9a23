import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation

/// What has become of a request, or of one item of its `forEach`. All texts are without the secrets of the run; the URLs in
/// ``metrics``, and the error of ``Cause/exchange(_:)``, are not.
public struct RequestOutcome: Sendable {
    /// How it ended.
    public enum State: String, Sendable {
        case succeeded, failed, skipped
        /// It succeeded in an earlier run, from the same inputs, and was not sent again.
        case kept
    }

    /// Why it failed, or was not sent.
    public enum Cause: Sendable {
        /// The status is not one that is expected.
        case status
        /// Another expectation does not hold.
        case expectation
        /// The bytes have another checksum.
        case checksum
        /// A capture found nothing.
        case capture
        /// A value that it needs is not there, or cannot be used where it is wanted.
        case value
        /// What was waited for did not come in time.
        case time
        /// The exchange failed.
        case exchange(any Error)
        /// A file could not be read or written.
        case file
        /// What it depends on failed.
        case dependency
        /// Its `when` is not true.
        case condition
        /// The run was cancelled, or has stopped after another failure.
        case cancelled
    }

    /// The id in the manifest.
    public let id: String
    /// The item, as text; nil for a request without `forEach`.
    public internal(set) var item: String?
    /// The number of the item, from 0; nil for a request without `forEach`.
    public internal(set) var index: Int?
    /// Where the request stands in the manifest.
    public let line: Int
    /// How it ended.
    public internal(set) var state = State.succeeded
    /// Why it failed or was skipped; nil for a success.
    public internal(set) var cause: Cause?
    /// Every failure, with what was seen; for a skipped request the reason.
    public internal(set) var failures: [String] = []
    /// The method of its last request.
    public internal(set) var method: String?
    /// The URL of its last request; nil if there was none.
    public internal(set) var url: String?
    /// The status of its last response.
    public internal(set) var status: Int?
    /// How many bytes the bodies of its responses have.
    public internal(set) var bytes: Int64 = 0
    /// The path of its file.
    public internal(set) var file: String?
    /// How many requests it has sent: of a poll or of pages, more than one.
    public internal(set) var requestCount = 0
    /// Whether there were more pages than it was to request.
    public internal(set) var hasMorePages = false
    /// How often requests were tried again.
    public internal(set) var retryCount = 0
    /// When it began; nil if it was not sent.
    public internal(set) var began: Date?
    /// From its begin to its end, in seconds.
    public internal(set) var seconds: Double = 0
    /// When everything that it depends on had ended.
    public internal(set) var ready: Date?
    /// The times of its requests.
    public internal(set) var metrics: [OperationMetrics] = []
    /// The captured values, as JSON.
    public internal(set) var captures: [(name: String, value: String)] = []

    /// The id, and the item in brackets.
    public var name: String { item.map { "\(id)[\($0)]" } ?? id }
    /// Whether it counts as a success for those that depend on it.
    public var isSuccess: Bool { state == .succeeded || state == .kept }

    /// What is said of one that has more pages.
    package var pagesNote: String { "ended after \(requestCount) pages; there are more" }

    init(_ plan: RequestPlan, item: JSON? = nil, index: Int? = nil) {
        (id, line) = (plan.id, plan.line)
        self.item = item?.text
        self.index = index
    }
}

/// A response that has come.
public struct WorkflowResponse: Sendable {
    /// The version of HTTP: `HTTP/1.1`.
    public let version: String
    /// The status.
    public let status: Int
    /// The fields, as they came.
    public let fields: [(name: String, value: String)]
    /// The body; of an event its data.
    public let body: Data
    /// The charset of the body, as the server names it; nil if it names none.
    let label: String?

    /// The body as JSON; nil if it is not JSON.
    package var json: JSON? { try? JSON(body: body, label: label) }

    /// The body as text; nil if it is not text in its charset.
    package var text: String? { Charset.ofText(body, label: label).text(of: body) }
}

extension JSON {
    /// The JSON of a body.
    ///
    /// - Parameter label: the charset that the response names; nil for none.
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

/// What happens in a run.
public enum WorkflowEvent: Sendable {
    /// A request, or an item of it, begins. The outcome has its names only.
    case began(RequestOutcome)
    /// It has ended.
    case finished(RequestOutcome)
    /// A request is tried again, or asks once more; the text says why.
    case waiting(RequestOutcome, String)
}

/// What has become of a run.
public struct WorkflowResult: Sendable {
    /// All outcomes, in the order of the manifest, and of the items.
    public var outcomes: [RequestOutcome] = []
    /// When it began.
    public var began = Date()
    /// How long it took, in seconds.
    public var seconds: Double = 0
    /// What could not be written of the files that the manifest names (`cookie-jar`, `hsts`), each on one line.
    public var storeFailures: [String] = []

    /// A result without outcomes.
    public init() {}

    /// Those that failed.
    public var failures: [RequestOutcome] { outcomes.filter { $0.state == .failed } }
}
