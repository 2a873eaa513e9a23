// Changes the library in one place at a time, and checks whether the tests detect the change.
//
//     mutants plan PACKAGE FOLDER SEED COUNT [NUMBER…]   draws COUNT mutants, some spare ones in case some do not compile, and
//                                                        the given ones
//     mutants write PACKAGE FOLDER                       writes the package with the mutants beside the folder, and locates
//                                                        them again if the sources have changed
//     mutants drop FOLDER LOG                            removes the mutants named in compiler errors; fails if an error has
//                                                        another cause
//     mutants reach FOLDER PROGRAM                       runs each suite once, and records which mutants it reaches
//     mutants try FOLDER PROGRAM [NUMBER…|unnoticed]     tries the mutants without an outcome, or the given ones again
//     mutants report FOLDER                              counts the outcomes, and names the undetected mutants
//     mutants all PACKAGE                                names all mutants
//
// Tests/long mutants runs all of these commands in order.
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
/// Returns the folder of the package with the mutants, which all seeds share to avoid rebuilding.
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
