import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations

/// The decisions about a token, in simulated time.
@Suite struct TokenStateTests {
    private let date = Date(timeIntervalSince1970: 1_000_000)

    private func begins(_ step: TokenState.Step) -> Int? {
        if case .wait(let number) = step { number } else { nil }
    }

    private func uses(_ step: TokenState.Step) -> String? {
        if case .use(let token, _) = step { token.value } else { nil }
    }

    private static let lives: [(Double, Double, Double?)] = [
        (3600, 3569, 3571), (20, 9, 11), (60, 29, 31), (0, 1e6, nil), (-5, 1e6, nil),
    ]

    @Test(arguments: lives)
    func `a token is refreshed before it expires, and a short-lived one after half of its lifetime`(
        life: Double, good: Double, due: Double?
    ) {
        let token = AccessToken("a", expires: date.addingTimeInterval(life))
        var state = TokenState(token, at: date, leeway: 30)
        let before = state.next(0, date.addingTimeInterval(good))
        #expect(uses(before) == "a")
        guard let due else { return }
        let after = state.next(0, date.addingTimeInterval(due))
        #expect(begins(after) == 1)
    }

    @Test func `a request waits for a running refresh, and rejecting an outdated token starts no other refresh`() {
        var state = TokenState(AccessToken("a"), at: date, leeway: 30)
        guard case .use(_, let first) = state.next(0, date) else { return #expect(Bool(false)) }
        let refused = state.refused(first, 0)
        #expect(begins(refused) == 1)
        for _ in 0..<3 {
            if case .wait(nil) = state.refused(first, 0) {} else { Issue.record("a second refresh") }
            if case .wait(nil) = state.next(0, date) {} else { Issue.record("a request without a token") }
        }
        let counts = state.end(1, .success(AccessToken("b")), at: date)
        let steps = [state.refused(first, 0), state.next(0, date)]
        #expect(counts && steps.map(uses) == ["b", "b"])
        let countsAgain = state.end(1, .success(AccessToken("c")), at: date)
        #expect(!countsAgain && state.token?.value == "b")
    }

    @Test func `a newer token is available during and after a refresh, but not after it was removed`() {
        var state = TokenState(AccessToken("a"), at: date, leeway: 30)
        guard case .use(_, let first) = state.next(0, date) else { return #expect(Bool(false)) }
        #expect(!state.isNewer(than: first))
        _ = state.refused(first, 0)
        #expect(state.isNewer(than: first))
        _ = state.end(1, .success(AccessToken("b")), at: date)
        #expect(state.isNewer(than: first))
        state.set(nil, at: date)
        #expect(!state.isNewer(than: first))
    }

    @Test func `a token that is removed during a refresh is replaced by that refresh`() {
        var state = TokenState(AccessToken("a"), at: date, leeway: 30)
        guard case .use(_, let first) = state.next(0, date) else { return #expect(Bool(false)) }
        let refused = state.refused(first, 0)
        #expect(begins(refused) == 1)
        state.set(nil, at: date)
        if case .wait(nil) = state.next(0, date) {} else { Issue.record("a second refresh, or a request without a token") }
        let counts = state.end(1, .success(AccessToken("b")), at: date)
        let next = state.next(0, date)
        #expect(counts && uses(next) == "b")
        // If no refresh is running, the next request begins one.
        state.set(nil, at: date)
        let after = state.next(0, date)
        #expect(begins(after) == 2)
    }

    @Test func `refreshes are limited per interval`() {
        var state = TokenState(nil, at: date, leeway: 30)
        (state.limit, state.window) = (2, 30)
        struct Reason: Error {}
        for (time, number) in [(0.0, 1), (10, 2)] {
            let step = state.next(time, date)
            #expect(begins(step) == number)
            let counts = state.end(number, .failure(Reason()), at: date)
            #expect(counts)
        }
        guard case .fail(.tooManyRefreshes(let reason)) = state.next(29, date) else {
            return #expect(Bool(false), "a third refresh")
        }
        #expect(reason is Reason)
        // Removing the token does not reset the limit.
        state.set(nil, at: date)
        guard case .fail(.tooManyRefreshes) = state.next(29, date) else {
            return #expect(Bool(false), "a third refresh")
        }
        let third = state.next(30, date)
        #expect(begins(third) == 3)
        // A token set by the user resets the limit.
        state.set(AccessToken("x"), at: date)
        let next = state.next(31, date)
        let counts = state.end(3, .success(AccessToken("y")), at: date)
        #expect(uses(next) == "x" && !counts)
    }

    @Test(arguments: [(2.0, true), (0.5, false)])
    func `a short-lived token is refreshed once per lifetime, not for each request`(life: Double, mayGoOn: Bool) {
        var state = TokenState(nil, at: date, leeway: 30)
        (state.limit, state.window) = (3, 1000)
        for round in 1...10 {
            let now = date.addingTimeInterval(Double(round) * 10)
            guard let number = begins(state.next(Double(round) * 10, now)) else { return #expect(!mayGoOn && round == 4) }
            let token = AccessToken("\(round)", expires: now.addingTimeInterval(life))
            let counts = state.end(number, .success(token), at: now)
            let step = state.next(Double(round) * 10, now)
            #expect(counts && uses(step) == "\(round)")
        }
        #expect(mayGoOn)
    }

    @Test func `no sequence of events leaves a waiter without a refresh or runs two refreshes concurrently`() {
        for seed in 0..<500 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            var state = TokenState(seed % 2 == 0 ? nil : AccessToken("t"), at: date, leeway: 30)
            state.limit = 1_000
            var running: Set<Int> = [], newest = 0
            for _ in 0..<60 {
                switch random.next() % 5 {
                case 0, 1:
                    let step = random.next() % 2 == 0 ? state.next(0, date) : state.refused(Int(random.next() % 5), 0)
                    switch step {
                    case .wait(let number?):
                        #expect(number > newest)
                        newest = number
                        running.insert(number)
                        #expect(state.refresh == number)
                    case .wait(nil): #expect(state.refresh.map(running.contains) == true)
                    case .use(let token, let generation):
                        #expect(token == state.token && generation == state.generation)
                    case .fail: Issue.record("refused a refresh")
                    }
                case 2, 3:
                    guard let number = running.sorted().first else { continue }
                    running.remove(number)
                    let counts = state.refresh == number
                    let result: Result<AccessToken, any Error> =
                        random.next() % 2 == 0 ? .success(AccessToken("r\(number)")) : .failure(CancellationError())
                    let hasCounted = state.end(number, result, at: date)
                    #expect(hasCounted == counts && (!counts || state.refresh == nil))
                default: state.set(random.next() % 2 == 0 ? nil : AccessToken("s"), at: date)
                }
            }
        }
    }
}
