import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The conclusions from the end of a connection, for every decision that precedes it.
@Suite struct AttemptStateTests {
    private static let lost = URLError(.networkConnectionLost)
    private static let refused = URLError(.cannotConnectToHost)
    private static let tooLarge = URLError(.dataLengthExceedsMaximum)

    private func name(_ conclusion: AttemptState.Conclusion) -> String {
        switch conclusion {
        case .received(nil): "received"
        case .received(let error?): "cut \(error.code.rawValue)"
        case .failed(let error): "failed \(error.code.rawValue)"
        case .stopped: "stopped"
        case .repeated(let whole): whole ? "whole" : "again"
        }
    }

    private static let ends: [(name: String, end: AttemptState.End)] = [
        ("finished", .finished), ("lost", .failed(lost)), ("cancelled", .cancelled),
        ("left", .failed(URLError(leavingRestOf: nil, after: 1))),
    ]

    private static let intents: [(String, AttemptState.Intent?, [String])] = [
        ("none", nil, ["received", "failed -1005", "stopped", "cut -1001"]),
        ("askForWhole", .askForWhole, ["whole", "whole", "whole", "whole"]),
        ("sendLater", .sendLater, ["again", "again", "again", "again"]),
        ("succeed", .succeed, ["received", "received", "received", "received"]),
        ("fail", .fail(refused), ["failed -1004", "failed -1004", "failed -1004", "failed -1004"]),
        ("cut", .cut(tooLarge), ["cut -1103", "cut -1103", "cut -1103", "cut -1103"]),
    ]

    @Test(arguments: intents)
    func `a decision outweighs how the connection ends`(
        _: String, intent: AttemptState.Intent?, conclusions: [String]
    ) {
        for (end, expected) in zip(Self.ends.map(\.end), conclusions) {
            for endsFirst in [false, true] {
                var state = AttemptState()
                if endsFirst { _ = state.finish(end) }
                if let intent { _ = state.decide(intent) }
                if !endsFirst { _ = state.finish(end) }
                #expect(name(state.conclusion) == expected)
                #expect(!state.isReceiving && state.hasEnded)
            }
        }
    }

    @Test func `only the first decision and the first end take effect`() {
        var state = AttemptState()
        #expect(state.isReceiving)
        let isFirst = [state.decide(.askForWhole), state.decide(.succeed)]
        #expect(isFirst == [true, false] && !state.isReceiving && !state.hasEnded)
        let isFirstEnd = [state.finish(.cancelled), state.finish(.finished)]
        #expect(isFirstEnd == [true, false] && name(state.conclusion) == "whole")
    }

    @Test func `losing bytes overrides an earlier decision to succeed`() {
        var state = AttemptState()
        _ = state.decide(.succeed)
        state.loseBytes(Self.lost)
        #expect(name(state.conclusion) == "failed -1005")
    }

    @Test func `a withdrawn decision lets the connection continue`() {
        var state = AttemptState()
        _ = state.decide(.sendLater)
        state.withdraw()
        #expect(state.isReceiving)
        _ = state.finish(.finished)
        #expect(name(state.conclusion) == "received")
    }
}
