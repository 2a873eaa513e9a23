import ConvoyTestSupport
import Foundation

/// `convoy-bench instructions`: the cost of each form of a request in user space, counted rather than measured, so that
/// other load on the machine has no effect.
///
/// Each form runs in a separate process under valgrind's callgrind, with two numbers of requests. The difference
/// excludes the startup of the process and the connection. The server runs in another process, which is not counted.
struct InstructionCount {
    static let command = "instructions"
    /// The argument with which a process runs a form.
    static let formCommand = "--run-form"
    private static let (fewer, more) = (50, 250)

    static let usage = """
        usage: convoy-bench instructions [--only FORM[,FORM…]] [--rounds N] [--json]

        Counts the cost of sequential requests in user space with valgrind's callgrind: medians of N rounds (default 3).
        Locks are counted for Convoy only; allocations include those of libcurl.

        Forms:
        \(RequestForm.all.map { "  " + $0.name.padding(toLength: 12, withPad: " ", startingAt: 0) + $0.summary }
            .joined(separator: "\n"))
        """

    private var forms = RequestForm.all
    private var printsJSON = false
    /// The number of rounds. A few requests cost more, for example if a message arrives in two pieces or a timer fires.
    private var rounds = 3

    /// - Throws: `BenchError` that describes the mistake.
    init(_ arguments: [String]) throws {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--json": printsJSON = true
            case "--rounds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count > 0 else {
                    throw BenchError("--rounds requires a number")
                }
                rounds = count
            case "--only":
                guard let names = rest.popFirst()?.split(separator: ",").map(String.init) else {
                    throw BenchError("--only requires names")
                }
                for name in names where !RequestForm.all.contains(where: { $0.name == name }) {
                    throw BenchError("unknown form: \(name)")
                }
                forms = RequestForm.all.filter { names.contains($0.name) }
            default: throw BenchError("\(argument)?\n\(InstructionCount.usage)")
            }
        }
    }

    /// Counts the instructions, and prints a line for each form.
    func run() throws {
        guard External.find("valgrind") != nil, External.find("objdump") != nil else {
            print("instructions: valgrind and binutils are required: sudo apt-get install valgrind binutils")
            return
        }
        let server = try BenchServer(isQuick: false)
        defer { server.stop() }
        let context = String(decoding: try JSONEncoder().encode(server.context), as: UTF8.self)
        let program = try CallgrindProfile.Program()
        defer { program.remove() }
        if !printsJSON {
            print(
                "one request in user space (\(Self.more) requests minus \(Self.fewer), medians of \(rounds) rounds)")
            print(Self.row(["form", "instructions", "beyond C", "retains+releases", "allocations", "locks", ""]))
        }
        var limit: Double?
        for form in forms {
            let differences = try (0..<rounds).map { _ in
                let profiles = try [Self.more, Self.fewer].map { count in
                    try program.run([Self.formCommand, form.name, "\(count)", context])
                }
                return (profiles[0], profiles[1])
            }
            let cost = Cost(differences)
            if form.name == Trial.cLoop { limit = cost.instructions }
            try write(form, cost, limit)
            fflush(nil)
        }
    }

    /// Runs the requests of a form in its own process.
    static func runForm(_ arguments: [String]) throws {
        guard arguments.count == 3, let form = RequestForm.all.first(where: { $0.name == arguments[0] }),
            let count = Int(arguments[1])
        else { throw BenchError("unknown form") }
        try form.run(JSONDecoder().decode(Context.self, from: Data(arguments[2].utf8)), count)
    }

    // MARK: Output

    /// The cost of one request.
    private struct Cost: Encodable {
        let instructions: Double
        let retainsAndReleases: Double
        let allocations: Double
        let locks: Double

        /// - Parameter profiles: The profiles of each round, with more and with fewer requests.
        init(_ profiles: [(more: CallgrindProfile, fewer: CallgrindProfile)]) {
            func each(_ figure: KeyPath<CallgrindProfile, Int>) -> Double {
                let requests = Double(InstructionCount.more - InstructionCount.fewer)
                return profiles.map { Double($0[keyPath: figure] - $1[keyPath: figure]) / requests }.median ?? 0
            }
            instructions = each(\.instructions)
            retainsAndReleases = each(\.retainsAndReleases)
            allocations = each(\.allocations)
            locks = each(\.locks)
        }
    }

    private struct Line: Encodable {
        let form: String
        let cost: Cost
    }

    private func write(_ form: RequestForm, _ cost: Cost, _ limit: Double?) throws {
        if printsJSON {
            print(String(decoding: try JSONEncoder().encode(Line(form: form.name, cost: cost)), as: UTF8.self))
            return
        }
        let beyond = limit.map { Self.number(cost.instructions - $0) } ?? ""
        let figures = [cost.retainsAndReleases, cost.allocations, cost.locks].map(Self.number)
        print(Self.row([form.name, Self.number(cost.instructions), beyond] + figures + [form.summary]))
    }

    private static func number(_ value: Double) -> String { String(format: "%.0f", value) }

    private static func row(_ cells: [String]) -> String {
        zip(cells, [12, 14, 10, 18, 13, 7, 0]).enumerated().map { index, cell in
            let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + padding : cell.1 == 0 ? "  " + cell.0 : padding + cell.0
        }.joined()
    }
}
