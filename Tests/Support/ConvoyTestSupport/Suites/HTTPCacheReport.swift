/// The verdicts on the tests of `HTTPCacheSuite`, with the same counts as in the suite's own report.
package struct HTTPCacheReport: Sendable {
    /// The number of tests of one kind with each verdict. A test that depends on a test that has not passed is void.
    package struct Count: Sendable, Hashable {
        package var passed = 0
        package var failed = 0
        package var void = 0
        package var all: Int { passed + failed + void }
    }

    /// The required tests that do not pass, each with its reason.
    package static let deviations: [String: String] = [
        // Both depend on `stale-close`, which has no right answer: it expects a stale response for a broken connection
        // without permission, for which Convoy requires `stale-if-error`. The requirements of both are met, because
        // they pass alone.
        "stale-close-must-revalidate": "needs a test that asks for stale responses without permission",
        "stale-close-no-cache": "needs a test that asks for stale responses without permission",
    ]

    package private(set) var counts: [HTTPCacheSuite.Kind: Count] = [:]
    /// The verdict of each test that has not passed.
    package private(set) var lines: [String] = []
    /// The required tests that have not passed.
    package private(set) var unfulfilled: [String: String] = [:]

    package init(_ tests: [HTTPCacheSuite.Test], _ verdicts: [String: HTTPCacheVerdict]) {
        for test in tests {
            let kind = test.effectiveKind
            let verdict = verdicts[test.id] ?? .void("not made")
            let lacksDependency = test.dependencies.contains { id in verdicts[id].map { $0 != .passed } ?? false }
            var text: String?
            if lacksDependency {
                counts[kind, default: Count()].void += 1
                text = "void, since a test that it needs has not passed"
            } else {
                switch verdict {
                case .passed: counts[kind, default: Count()].passed += 1
                case .failed(let reason):
                    counts[kind, default: Count()].failed += 1
                    text = "failed: \(reason)"
                case .void(let reason):
                    counts[kind, default: Count()].void += 1
                    text = "void: \(reason)"
                }
            }
            guard let text else { continue }
            lines.append("\(kind.rawValue) \(test.id): \(text)")
            if kind == .required { unfulfilled[test.id] = text }
        }
        lines.sort()
    }

    /// The required tests whose verdicts differ from ``deviations``.
    package var surprises: [String] {
        unfulfilled.filter { Self.deviations[$0.key] == nil }.map { "\($0.key): \($0.value)" }
            + Self.deviations.keys.filter { unfulfilled[$0] == nil }
            .map { "\($0) passes, although a reason why not is given" }
    }
}
