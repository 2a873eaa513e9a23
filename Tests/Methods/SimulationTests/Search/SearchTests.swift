import ConvoyTestSupport
import Testing

/// The search and its simplification, with counters instead of operations.
@Suite struct SearchTests {
    /// Users who increment a number in two steps: they read the number, and write the next one.
    private struct Counting: Scenario {
        /// The number of increments per user.
        var users: [Int]
        /// Whether an increment is a single step.
        var isAtomic = false
        /// An irrelevant part.
        var decoration = 0

        var simpler: [Counting] {
            var found: [Counting] = []
            for user in users.indices {
                var copy = self
                if users[user] > 1 { copy.users[user] -= 1 } else { copy.users.remove(at: user) }
                found.append(copy)
            }
            if decoration > 0 { found.append(Counting(users: users, isAtomic: isAtomic, decoration: decoration - 1)) }
            return found
        }

        func play(tells: Bool, _ pick: (Int) -> Int) -> Play {
            var play = Play()
            var number = 0
            var left = users.map { $0 * (isAtomic ? 1 : 2) }
            var read = users.map { _ in 0 }
            while true {
                let able = left.indices.filter { left[$0] > 0 }
                guard !able.isEmpty else { break }
                let user = able[able.count == 1 ? 0 : pick(able.count)]
                let writes = isAtomic || left[user] % 2 == 1
                if writes { number = (isAtomic ? number : read[user]) + 1 } else { read[user] = number }
                left[user] -= 1
                play.stepCount += 1
                if tells { play.steps.append("user \(user) \(writes ? "writes \(number)" : "reads \(number)")") }
            }
            if number != users.reduce(0, +) { play.fault = Fault("every increment counts", "\(number)") }
            return play
        }
    }

    @Test func `all orders of two users are tried once`() {
        // The number of orders equals the number of ways to choose the steps of one user among all steps.
        for (first, second, orders) in [(1, 1, 2), (2, 2, 6), (3, 4, 35), (5, 5, 252)] {
            var search = Search<Counting>()
            let finding = search.tryAll(Counting(users: [first, second], isAtomic: true), depth: 100)
            #expect(finding?.text == nil)
            #expect(search.plays == orders)
            #expect(search.wholeCount == 1)
        }
    }

    @Test func `the search respects a depth limit`() {
        var search = Search<Counting>()
        let finding = search.tryAll(Counting(users: [5, 5], isAtomic: true), depth: 3)
        #expect(finding?.text == nil)
        #expect(search.plays == 8)
        #expect(search.wholeCount == 0)
    }

    @Test func `a lost increment is found in some order`() throws {
        var search = Search<Counting>()
        let found = search.tryAll(Counting(users: [1, 1]), depth: 100)
        let finding = try #require(found)
        #expect(Set(finding.steps.prefix(2)) == ["user 0 reads 0", "user 1 reads 0"])
        #expect(Set(finding.steps.dropFirst(2)) == ["user 0 writes 1", "user 1 writes 1"])
    }

    @Test func `a finding is simplified and can be replayed`() throws {
        var random = SplitMix64(seed: 5)
        var search = Search<Counting>()
        var found: Finding<Counting>?
        for _ in 0..<100 where found == nil { found = search.tryOne(Counting(users: [4, 3, 5], decoration: 6), &random) }
        let finding = try #require(found)
        #expect(finding.schedule.scenario.users == [1, 1])
        #expect(finding.schedule.scenario.decoration == 0)
        #expect(finding.schedule.picks.count <= 2)
        #expect(finding.steps.count == 4)

        let read = try Schedule<Counting>(text: finding.schedule.text)
        let (play, _) = read.play(tells: true)
        #expect(play.fault == finding.fault)
        #expect(play.steps == finding.steps)
        #expect(finding.text.contains("CONVOY_SCHEDULE='\(finding.schedule.text)'"))
    }
}
