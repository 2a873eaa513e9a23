import ConvoyTestSupport
import Foundation

/// `convoy-bench instructions`: what each form of a request costs in user space, counted rather than measured, so that
/// other load on the machine changes nothing.
///
/// Each form runs in a process of its own under valgrind's callgrind, with two numbers of requests. The difference leaves
/// out the start of the process and of the connection. The server runs elsewhere, and is not counted.
struct InstructionCount {
    static let command = "instructions"
    /// The argument that turns a process into a form.
    static let formCommand = "--run-form"
    private static let (fewer, more) = (50, 250)

    static let usage = """
        usage: convoy-bench instructions [--only FORM[,FORM…]] [--rounds N] [--json]

        Counts what a request costs in user space, by valgrind's callgrind, one at a time: the medians of N rounds (3).
        Locks are those that Convoy takes; allocations are those of libcurl, too.

        Forms:
        \(RequestForm.all.map { "  " + $0.name.padding(toLength: 12, withPad: " ", startingAt: 0) + $0.summary }
            .joined(separator: "\n"))
        """

    private var forms = RequestForm.all
    private var printsJSON = false
    /// When a message comes in two pieces, or a timer fires, a few requests cost more.
    private var rounds = 3

    /// - Throws: `BenchError` with the mistake.
    init(_ arguments: [String]) throws {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--json": printsJSON = true
            case "--rounds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count > 0 else {
                    throw BenchError("--rounds needs a number")
                }
                rounds = count
            case "--only":
                guard let names = rest.popFirst()?.split(separator: ",").map(String.init) else {
                    throw BenchError("--only needs names")
                }
                for name in names where !RequestForm.all.contains(where: { $0.name == name }) {
                    throw BenchError("there is no form \(name)")
                }
                forms = RequestForm.all.filter { names.contains($0.name) }
            default: throw BenchError("\(argument)?\n\(InstructionCount.usage)")
            }
        }
    }

    /// Counts, and prints a line for each form.
    func run() throws {
        guard External.find("valgrind") != nil, External.find("objdump") != nil else {
            print("instructions: this needs valgrind and binutils: sudo apt-get install valgrind binutils")
            return
        }
        let server = try BenchServer(isQuick: false)
        defer { server.stop() }
        let context = String(decoding: try JSONEncoder().encode(server.context), as: UTF8.self)
        let program = try CallgrindProfile.Program()
        defer { program.remove() }
        if !printsJSON {
            print(
                "a request in user space (\(Self.more) one after the other less \(Self.fewer), medians of \(rounds) rounds)")
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

    /// The form's process.
    static func runForm(_ arguments: [String]) throws {
        guard arguments.count == 3, let form = RequestForm.all.first(where: { $0.name == arguments[0] }),
            let count = Int(arguments[1])
        else { throw BenchError("no such form") }
        try form.run(JSONDecoder().decode(Context.self, from: Data(arguments[2].utf8)), count)
    }

    // MARK: Output

    /// What one request costs.
    private struct Cost: Encodable {
        let instructions: Double
        let retainsAndReleases: Double
        let allocations: Double
        let locks: Double

        /// - Parameter profiles: of each round, those with more and with fewer requests.
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
