import Foundation

/// The command line.
struct Options {
    var cases: [Case] = Case.all
    var printsJSON = false
    var rounds = 5
    var isQuick = false
    /// Only these subjects; nil for all.
    var subjects: Set<String>?

    static let usage = """
        usage: convoy-bench [CASE…] [--json] [--rounds N] [--quick] [--only SUBJECT[,SUBJECT…]]
               convoy-bench instructions [--only FORM[,FORM…]] [--rounds N] [--json]

        Runs the cases (all, unless some are named) and says which bars are met.

          --json      one JSON object a line instead of tables
          --rounds N  how often each subject runs; 5, and what is less proves little
          --quick     one round with small counts, only to show that everything works
          --only      only these subjects

        `convoy-bench instructions` counts what a request costs in user space, by valgrind; with --help it lists its forms.
        `Benchmarks/way` shows which files and folders a request runs through.

        Cases:
        \(Case.all.map { "  " + $0.name.padding(toLength: 14, withPad: " ", startingAt: 0) + $0.summary }
            .joined(separator: "\n"))
        """

    /// - Throws: `BenchError` with the mistake.
    init(_ arguments: [String]) throws {
        var named: [Case] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--json": printsJSON = true
            case "--quick":
                isQuick = true
                rounds = 1
            case "--rounds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count > 0 else {
                    throw BenchError("--rounds needs a number")
                }
                rounds = count
            case "--only":
                guard let names = rest.popFirst() else { throw BenchError("--only needs names") }
                subjects = Set(names.split(separator: ",").map(String.init))
            default:
                guard let found = Case.all.first(where: { $0.name == argument }) else {
                    throw BenchError("there is no case \(argument)")
                }
                named.append(found)
            }
        }
        if !named.isEmpty { cases = named }
    }
}
