import Testing

@testable import ConvoyTool

@Suite(.serialized) struct DependencyCycleTests {
    @Test func `a cycle is reported with its members; a diamond is not a cycle`() {
        let diamond = ["a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []]
        #expect(DependencyCycle.find(in: diamond, order: ["a", "b", "c", "d"]) == nil)
        let ring = ["a": ["b"], "b": ["c"], "c": ["a"]]
        #expect(DependencyCycle.find(in: ring, order: ["a", "b", "c"]) == ["a", "b", "c"])
        #expect(DependencyCycle.find(in: ["a": ["b"], "b": ["b"]], order: ["a", "b"]) == ["b"])
        let chain = Dictionary(uniqueKeysWithValues: (0..<100_000).map { ("\($0)", ["\($0 + 1)"]) })
        #expect(DependencyCycle.find(in: chain, order: ["0"]) == nil)
    }
}
