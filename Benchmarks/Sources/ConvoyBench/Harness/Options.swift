import Foundation

/// The command line.
struct Options {
    var cases: [Case] = Case.all
    var printsJSON = false
    var rounds = 5
    var isQuick = false
    /// The subjects to run; nil for all.
    var subjects: Set<String>?

    static let usage = """
        usage: convoy-bench [CASE…] [--json] [--rounds N] [--quick] [--only SUBJECT[,SUBJECT…]]
               convoy-bench instructions [--only FORM[,FORM…]] [--rounds N] [--json]

        Runs the given cases, or all, and reports which targets are met.

          --json      print one JSON object per line instead of tables
          --rounds N  number of runs of each subject (default 5; fewer are unreliable)
          --quick     one round with small counts, only to check that everything works
          --only      run only these subjects

        `convoy-bench instructions` counts the instructions of a request in user space with valgrind; --help lists its forms.
        `Benchmarks/way` shows the source files and folders used by a request.

        Cases:
        \(Case.all.map { "  " + $0.name.padding(toLength: 14, withPad: " ", startingAt: 0) + $0.summary }
            .joined(separator: "\n"))
        """

    /// - Throws: `BenchError` that describes the mistake.
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
                    throw BenchError("--rounds requires a number")
                }
                rounds = count
            case "--only":
                guard let names = rest.popFirst() else { throw BenchError("--only requires names") }
                subjects = Set(names.split(separator: ",").map(String.init))
            default:
                guard let found = Case.all.first(where: { $0.name == argument }) else {
                    throw BenchError("unknown case: \(argument)")
                }
                named.append(found)
            }
        }
        if !named.isEmpty { cases = named }
    }
}
