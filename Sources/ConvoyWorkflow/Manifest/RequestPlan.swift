import ConvoySecurity
import ConvoySerialization
import Foundation

/// A request of a manifest, checked and not yet sent.
struct RequestPlan: Sendable {
    let id: String
    /// Where it is written.
    let line: Int
    let column: Int

    var method = "GET"
    var url: Template
    var query: [(name: String, value: TreeTemplate)] = []
    var headers: [(name: String, value: Template?, isDefault: Bool)] = []
    var body = BodyPlan.none
    var login = LoginPlan.none
    /// Whether the login is that of the defaults.
    var hasDefaultLogin = false
    var connection = ConnectionPlan()
    var retry: RetryPlan?
    var timeout: Double?

    /// The requests without which it cannot run: those whose values it takes, and those of `after`.
    var dependencies: [String] = []
    var when: Expression?
    var forEach: TreeTemplate?
    /// How many items run at a time; nil for no limit but that of the queue.
    var parallel: Int?
    /// Nil for no limits but those of the run.
    var limits: RequestLimits?
    var onFailure: FailureRule?
    var poll: PollPlan?
    var follow: CaptureSource?
    var maximumPages = 100
    var events: EventPlan?

    var output: Template?
    var expectations = ExpectationPlan()
    var captures: [CapturePlan] = []

    /// All templates of what is sent, and of where the response goes.
    var templates: [Template] {
        var all = [url] + query.flatMap(\.value.templates) + headers.compactMap(\.value) + body.templates + login.templates
        if let output { all.append(output) }
        return all + connection.templates + expectations.templates
    }
}

/// What a failure means for the rest of the run.
enum FailureRule: String, Sendable, CaseIterable {
    /// Nothing more is begun, but what has a `when`.
    case stop
    /// Those that depend on it run as if it had succeeded.
    case `continue`
}

/// The body of a request.
enum BodyPlan: Sendable {
    case none
    case json(TreeTemplate)
    case form([(name: String, value: TreeTemplate)])
    case multipart([PartPlan])
    case text(Template)
    case file(Template)

    var templates: [Template] {
        switch self {
        case .none: []
        case .json(let tree): tree.templates
        case .form(let items): items.flatMap(\.value.templates)
        case .multipart(let parts): parts.flatMap(\.templates)
        case .text(let template), .file(let template): [template]
        }
    }
}

/// A part of a multipart form.
struct PartPlan: Sendable {
    var name: String
    /// The text, or the path of the file.
    var value: Template
    var isFile = false
    var fileName: Template?
    var type: String?

    var templates: [Template] { [value] + (fileName.map { [$0] } ?? []) }
}

/// The login that a request is sent with.
enum LoginPlan: Sendable {
    case none
    case bearer(Template)
    case basic(user: Template, password: Template)

    var templates: [Template] {
        switch self {
        case .none: []
        case .bearer(let token): [token]
        case .basic(let user, let password): [user, password]
        }
    }
}

struct RetryPlan: Sendable {
    var count: Int
    /// Statuses after which a request is tried again, besides the usual ones.
    var statuses: Set<Int> = []
    /// After this time no other try begins, in seconds; nil for no limit.
    var maximumTime: Double?
}

/// The request again, until its response is as it should be.
struct PollPlan: Sendable {
    var until: Expression
    /// Seconds between a response and the next request.
    var every: Double
    /// Seconds after which it fails.
    var limit: Double
}

/// The server-sent event that a request waits for.
struct EventPlan: Sendable {
    var type: String?
    var pattern: String?
    var json: [JSONExpectation] = []
    /// Seconds after which it fails.
    var limit: Double
}

/// A value that is taken out of a response.
struct CapturePlan: Sendable {
    var name: String
    var source: CaptureSource
}

/// Where a captured value is.
enum CaptureSource: Sendable, Equatable {
    case json(JSONPath)
    case xpath(String)
    case header(String)
    case cookie(String)
    case status
    case url
    /// A group of a regular expression; nil for all of the text.
    case text(pattern: String?, group: Int)
}

/// What a response must be.
struct ExpectationPlan: Sendable {
    /// Nil for the usual: 200 to 299.
    var statuses: [ClosedRange<Int>]?
    var type: String?
    var headers: [HeaderExpectation] = []
    var json: [JSONExpectation] = []
    var minimumBytes: Int64?
    var maximumBytes: Int64?
    /// The digests in hexadecimal digits.
    var checksums: [(algorithm: ChecksumAlgorithm, value: Template)] = []
    /// Seconds.
    var maximumTime: Double?

    var templates: [Template] {
        checksums.map(\.value) + headers.compactMap(\.equals) + json.flatMap { $0.equals?.templates ?? [] }
    }
}

struct HeaderExpectation: Sendable {
    var name: String
    var equals: Template?
    var exists: Bool?
    var pattern: String?
}

struct JSONExpectation: Sendable {
    var path: JSONPath
    var equals: TreeTemplate?
    var exists: Bool?
    var pattern: String?
}
