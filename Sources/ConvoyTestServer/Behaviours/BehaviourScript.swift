import Foundation

/// The definition of a server behaviour, and its possible outcomes. By default, each part is that of an honest server.
struct BehaviourScript: Sendable {
    typealias Answer = @Sendable (BehaviourExchange) -> TestServer.Response

    /// How `If-Range` is evaluated (RFC 9110, section 13.1.5).
    enum IfRange: Sendable {
        /// It holds if it is the strong tag, or the date.
        case evaluated
        /// It holds if it is the tag, strong or weak, or the date.
        case comparedWeakly
        /// It always holds.
        case ignored
    }

    var outcomes: Set<ResumeOutcome>
    var isHonest = false
    var isUndetectable = false

    /// The version that is current for a request, by the request's number and whether it was redirected.
    var version: @Sendable (_ number: Int, _ isElsewhere: Bool) -> Int = { _, _ in 0 }
    /// Whether each version is half as long as the one before.
    var shrinks = false
    var sendsDate = true
    var validators: @Sendable (BehaviourExchange) -> TestServer.Headers = { ["ETag": $0.tag] }
    /// The validators of a part, if they differ.
    var partValidators: (@Sendable (BehaviourExchange) -> TestServer.Headers)?
    var ifRange = IfRange.evaluated
    /// Answers before everything else, if not nil.
    var first: @Sendable (BehaviourExchange) -> TestServer.Response? = { _ in nil }
    var whole: Answer = { $0.whole() }
    /// Answers a range request whose condition holds.
    var part: Answer = { $0.part() }
    /// Whether `part`, instead of 416, also answers a range that begins at or after the end.
    var answersBehindEnd = false
    /// What the connection does to each answer.
    var wire: @Sendable (BehaviourExchange, TestServer.Response) -> TestServer.Response = { $1 }

    init(_ outcomes: ResumeOutcome...) { self.outcomes = Set(outcomes) }

    /// A copy with one part replaced, for building the table.
    func with<Value>(_ part: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var copy = self
        copy[keyPath: part] = value
        return copy
    }

    /// Another representation for each request.
    var changing: Self { with(\.version, { number, _ in number }) }
    var ignoringIfRange: Self { with(\.ifRange, .ignored) }
    var honest: Self { with(\.isHonest, true) }
    /// The whole body is sent in chunks.
    var chunked: Self { with(\.whole, { $0.whole().framed(.chunked) }) }

    func answer(_ exchange: BehaviourExchange, ifRange condition: String?) -> TestServer.Response {
        var exchange = exchange
        exchange.validators = validators(exchange)
        return wire(exchange, selected(exchange, condition))
    }

    private func selected(_ given: BehaviourExchange, _ condition: String?) -> TestServer.Response {
        var exchange = given
        if let response = first(exchange) { return response }
        guard let asked = exchange.asked, holds(condition, exchange.validators) else { return whole(exchange) }
        guard asked < exchange.size || answersBehindEnd else { return exchange.unsatisfiable(exchange.size) }
        if let partValidators { exchange.validators = partValidators(exchange) }
        return part(exchange)
    }

    private func holds(_ condition: String?, _ validators: TestServer.Headers) -> Bool {
        guard let condition, ifRange != .ignored else { return true }
        if condition == validators["ETag"] { return ifRange == .comparedWeakly || !condition.hasPrefix("W/") }
        return condition == validators["Last-Modified"]
    }
}
