import Testing

@testable import ConvoyCache

/// The meaning of each status to a cache.
@Suite struct StatusRulesTests {
    private func statuses(where rule: (Int) -> Bool) -> [Int] { (100...699).filter(rule) }

    @Test("the heuristically cacheable statuses are those of RFC 9110, except for 206")
    func heuristic() {
        #expect(
            statuses(where: StatusRules.isHeuristicallyCacheable) == [
                200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501,
            ])
    }

    @Test("understood statuses can be stored, except for 401, because the next request may have credentials")
    func understood() {
        let understood = statuses(where: StatusRules.isUnderstood)
        #expect(
            understood == [
                200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 500, 501, 502, 503, 504,
            ])
        #expect(understood.filter { !StatusRules.isStorable($0) } == [401])
    }

    @Test("partial responses, and responses that apply to a single request only, are not stored")
    func storable() {
        let refused = (200...599).filter { !StatusRules.isStorable($0) }
        #expect(refused == [206, 304, 401, 407, 412, 416, 428, 429, 431, 511])
        #expect([199, 600].allSatisfy { !StatusRules.isStorable($0) })
    }

    @Test("certain statuses make an earlier response obsolete, and others allow serving a stale one")
    func others() {
        #expect(statuses(where: StatusRules.replaces) == [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410])
        #expect(statuses(where: StatusRules.isFailure) == [500, 502, 503, 504])
    }
}
