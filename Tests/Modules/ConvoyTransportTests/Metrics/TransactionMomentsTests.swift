import ConvoySupport
import ConvoyTestSupport
import Testing

@testable import ConvoyTransport

/// The computation of phase durations.
@Suite struct TransactionMomentsTests {
    @Test func `the durations of all phases add up to the total`() {
        var random = SplitMix64(seed: 7)
        for _ in 0..<20_000 {
            let start = UInt64.random(in: 0..<1 << 50, using: &random)
            var time = start
            func next() -> Double? {
                guard Int.random(in: 0..<3, using: &random) > 0 else { return nil }
                time += UInt64.random(in: 0..<(1 << UInt64.random(in: 1..<42, using: &random)), using: &random)
                return StartMoment.seconds(from: start, to: time)
            }
            var moments = TransactionMoments()
            moments.usesTLS = Bool.random(using: &random)
            moments.usesTunnel = Bool.random(using: &random)
            moments.connectionBegan = next()
            moments.nameFound = next()
            moments.connected = next()
            if moments.usesTunnel { moments.tunnelEstablished = next() }
            if moments.usesTLS { moments.secured = next() }
            moments.requestSent = next()
            moments.firstByte = next()
            if Bool.random(using: &random) { moments.requestSent = moments.firstByte.map { $0 + 0.5 } }
            time += 600_000_000
            moments.ended = StartMoment.seconds(from: start, to: time)
            let durations = moments.durations
            #expect(durations.map(\.phase) == TransactionPhase.allCases)
            #expect(durations.allSatisfy { $0.duration >= 0 })
            #expect(durations.reduce(0) { $0 + $1.duration } == moments.ended, "\(moments)")
        }
    }

    @Test func `the time until the end counts towards the phase after the last completed one`() {
        var moments = TransactionMoments()
        moments.ended = 2
        func current() -> TransactionPhase? { moments.durations.last { $0.duration == 1 }?.phase }
        #expect(moments.durations.first { $0.duration == 2 }?.phase == .blocked)
        moments.connectionBegan = 1
        #expect(current() == .nameLookup)
        (moments.connectionBegan, moments.nameFound) = (0, 1)
        #expect(current() == .connect)
        (moments.nameFound, moments.connected) = (0, 1)
        #expect(current() == .send)
        moments.usesTLS = true
        #expect(current() == .tls)
        moments.usesTunnel = true
        #expect(current() == .tunnel)
        moments.secured = 1
        moments.connected = 0
        #expect(moments.durations.first { $0.phase == .send }?.duration == 1)
        moments.requestSent = 1
        #expect(moments.durations.first { $0.phase == .wait }?.duration == 1)
        moments.firstByte = 1
        #expect(moments.durations.first { $0.phase == .receive }?.duration == 1)
    }

    @Test func `a clock that goes backwards adds no time`() {
        #expect(StartMoment.seconds(from: 10, to: 5) == 0)
        #expect(StartMoment.seconds(from: 0, to: .max) > 1e10)
    }
}
