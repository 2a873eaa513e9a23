import ConvoySecurity
import ConvoySerialization
import Foundation

/// A request of a manifest, validated but not yet sent.
struct RequestPlan: Sendable {
    let id: String
    /// The position in the manifest.
    let line: Int
    let column: Int

    /// The name of the manifest that contains the request.
    var manifest: String { url.source.document.name }

    /// The names that select the request together with others.
    var tags: [String] = []
    var method = "GET"
    var url: Template
    var query: [(name: Template, value: TreeTemplate)] = []
    var headers: [(name: String, value: Template?, isDefault: Bool)] = []
    var body = BodyPlan.none
    var login = LoginPlan.none
    /// Whether the login comes from the defaults.
    var hasDefaultLogin = false
    var connection = ConnectionPlan()
    var retry: RetryPlan?
    /// Whether the retries are those of the request, not of the defaults.
    var hasOwnRetry = false
    var timeout: Double?
    /// The time to wait before each item is sent, in seconds.
    var delay: Double = 0

    /// The requests that this request depends on: those whose values it uses, and those in `after`.
    var dependencies: [String] = []
    var when: Expression?
    var forEach: TreeTemplate?
    /// The maximum number of concurrent items, or nil for the limit of the queue.
    var parallel: Int?
    /// The limits of this request, or nil for those of the run.
    var limits: RequestLimits?
    var onFailure: FailureRule?
    var poll: PollPlan?
    var follow: CaptureSource?
    var maximumPages = 100
    var events: EventPlan?

    var output: Template?
    var expectations = ExpectationPlan()
    var captures: [CapturePlan] = []

    /// The references of everything that is sent or examined, except `when` and `forEach`.
    var references: [Reference] {
        templates.flatMap(\.references) + expectations.checks.flatMap(\.expression.references)
            + (poll?.until.references ?? [])
    }

    /// The templates of everything that is sent, and of the output path.
    var templates: [Template] {
        var all =
            [url] + query.flatMap { [$0.name] + $0.value.templates } + headers.compactMap(\.value) + body.templates
            + login.templates
        if let output { all.append(output) }
        return all + connection.templates + expectations.templates
    }
}

/// The effect of a failure on the rest of the run.
enum FailureRule: String, Sendable, CaseIterable {
    /// Start no further requests, except those with a `when` condition.
    case stop
    /// Run dependent requests as if the failed request had succeeded.
    case `continue`
}

/// The body of a request.
enum BodyPlan: Sendable {
    case none
    case json(TreeTemplate)
    case form([(name: Template, value: TreeTemplate)])
    case multipart([PartPlan])
    case text(Template)
    case file(Template)

    var templates: [Template] {
        switch self {
        case .none: []
        case .json(let tree): tree.templates
        case .form(let items): items.flatMap { [$0.name] + $0.value.templates }
        case .multipart(let parts): parts.flatMap(\.templates)
        case .text(let template), .file(let template): [template]
        }
    }
}

/// A part of a multipart form.
struct PartPlan: Sendable {
    var name: Template
    /// The text, or the path of the file.
    var value: Template
    var isFile = false
    var fileName: Template?
    var type: String?

    var templates: [Template] { [name, value] + (fileName.map { [$0] } ?? []) }
}

/// The login that is sent with a request.
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
    /// The statuses that cause a retry, in addition to the default statuses.
    var statuses: Set<Int> = []
    /// The time after which no retry starts, in seconds, or nil for no limit.
    var maximumTime: Double?
}

/// The settings for repeating a request until its response meets a condition.
struct PollPlan: Sendable {
    var until: Expression
    /// The delay between a response and the next request, in seconds.
    var every: Double
    /// The time after which polling fails, in seconds.
    var limit: Double
    /// The factor by which each delay is longer than the one before.
    var backoff: Double = 1
}

/// The server-sent event that a request waits for.
struct EventPlan: Sendable {
    var type: String?
    var pattern: String?
    var json: [JSONExpectation] = []
    /// The time after which waiting fails, in seconds.
    var limit: Double
}

/// A value that is captured from a response.
struct CapturePlan: Sendable {
    var name: String
    var source: CaptureSource
}

/// The source of a captured value.
enum CaptureSource: Sendable, Equatable {
    case json(JSONLocation)
    case xpath(String)
    case header(String)
    case cookie(String)
    /// The target of a `Link` field with a relation (RFC 8288).
    case link(String)
    case status
    case url
    /// The match of a group of a regular expression, or the whole body as text if the pattern is nil.
    case text(pattern: String?, group: Int)
}

/// The requirements for a response.
struct ExpectationPlan: Sendable {
    /// The accepted statuses, or nil for the default: 200 to 299.
    var statuses: [ClosedRange<Int>]?
    /// The accepted statuses whose values are not known in advance.
    var statusTemplates: [Template] = []
    var type: String?
    var headers: [HeaderExpectation] = []
    var json: [JSONExpectation] = []
    var minimumBytes: Int64?
    var maximumBytes: Int64?
    /// The digests, in hexadecimal.
    var checksums: [(algorithm: ChecksumAlgorithm, value: Template)] = []
    /// The maximum duration of the operation, in seconds.
    var maximumTime: Double?
    var checks: [CheckPlan] = []

    /// Returns the expectations with all accepted statuses.
    func resolved(in scope: some Scope) throws(EvaluationError) -> ExpectationPlan {
        guard !statusTemplates.isEmpty else { return self }
        var plan = self
        for template in statusTemplates {
            let json = try TreeTemplate(template).value(in: scope).json
            let values = if case .array(let values) = json { values } else { [json] }
            for value in values {
                guard let range = ExpectationReader.statusRange(value) else {
                    throw EvaluationError(message: "status: \(ExpectationReader.statusRule), not \(quoted(value.text))")
                }
                plan.statuses = (plan.statuses ?? []) + [range]
            }
        }
        plan.statusTemplates = []
        return plan
    }

    /// Whether an expression examines the status, which replaces the default.
    var checksStatus: Bool { uses(.status) }

    func uses(_ name: ResponseName) -> Bool { checks.contains { $0.expression.responseNames.contains(name.rawValue) } }

    /// The accepted statuses.
    var acceptedStatuses: [ClosedRange<Int>] { statuses ?? (checksStatus ? [100...999] : [200...299]) }

    var templates: [Template] {
        statusTemplates + checksums.map(\.value) + headers.compactMap(\.equals) + json.flatMap { $0.equals?.templates ?? [] }
    }
}

/// An expression that must be true for the response.
struct CheckPlan: Sendable {
    var expression: Expression
    /// The position in the manifest.
    var source: ManifestValue
}

struct HeaderExpectation: Sendable {
    var name: String
    var equals: Template?
    var exists: Bool?
    var pattern: String?
}

struct JSONExpectation: Sendable {
    var path: JSONLocation
    var equals: TreeTemplate?
    var exists: Bool?
    var pattern: String?
}
