// Changes one thing of the library at a time, and looks whether the tests notice.
//
//     mutants plan PACKAGE FOLDER SEED COUNT [NUMBER…]   draws COUNT mutants, and some beside them, for those that do not
//                                                        compile; builds these, too
//     mutants write PACKAGE FOLDER                       writes the package with them, beside the folder, and finds them
//                                                        again if the sources have changed since
//     mutants drop FOLDER LOG                            takes out those that the compiler complains of; fails if it is
//                                                        another's fault
//     mutants reach FOLDER PROGRAM                       runs each suite once, and notes which mutants it reaches
//     mutants try FOLDER PROGRAM [NUMBER…|unnoticed]     tries those without an outcome, or these once more
//     mutants report FOLDER                              counts, and names those that went unnoticed
//     mutants all PACKAGE                                names all
//
// Tests/long mutants does all of this, one after the other.
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
func argument(_ index: Int) -> String {
    guard index < arguments.count else {
        say("mutants plan|write|drop|reach|try|report|all …: see main.swift")
        exit(2)
    }
    return arguments[index]
}
func folder(_ index: Int) -> URL { URL(fileURLWithPath: argument(index)).standardizedFileURL }
/// The package with the mutants, which all seeds share, so that little is built anew.
func package(_ folder: URL) -> URL { folder.deletingLastPathComponent().appendingPathComponent("package") }
func load(_ folder: URL) throws -> Plan {
    try JSONDecoder().decode(Plan.self, from: Data(contentsOf: folder.appendingPathComponent("plan.json")))
}
func save(_ plan: Plan, _ folder: URL) throws {
    try JSONEncoder().encode(plan).write(to: folder.appendingPathComponent("plan.json"))
}

switch argument(0) {
case "plan":
    guard let seed = UInt64(argument(3)), let count = Int(argument(4)) else { exit(2) }
    let plan = try Plan.make(
        sources: folder(1), seed: seed, count: count, with: Set(arguments.dropFirst(5).compactMap { Int($0) }))
    say("seed \(seed): \(plan.mutants.count) drawn from \(plan.total) mutants, \(count) of which are tried")
    try FileManager.default.createDirectory(at: folder(2), withIntermediateDirectories: true)
    try save(plan, folder(2))
case "write":
    var plan = try load(folder(2))
    let gone = try plan.follow(sources: folder(1))
    if gone > 0 { say("\(gone) mutants are no longer in the sources, and left out") }
    try plan.write(package: folder(1), into: package(folder(2)))
    try save(plan, folder(2))
case "all":
    for mutant in try Plan.all(in: folder(1)).mutants { say(mutant.title) }
case "drop":
    var plan = try load(folder(1))
    let messages = try String(decoding: Data(contentsOf: folder(2)), as: UTF8.self)
    guard plan.drop(messages: messages, package: package(folder(1))) > 0 else { exit(1) }
    try save(plan, folder(1))
case "reach":
    try Reach.measure(plan: try load(folder(1)), folder: folder(1), binary: folder(2))
case "try":
    let trial = try Trial(plan: try load(folder(1)), folder: folder(1), binary: folder(2))
    let words = arguments.dropFirst(3)
    try trial.run(only: words.contains("unnoticed") ? trial.unnoticed : words.compactMap { Int($0) })
case "report":
    try Report.write(plan: try load(folder(1)), folder: folder(1))
default:
    _ = argument(Int.max)
}
