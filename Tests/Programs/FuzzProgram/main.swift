// Passes bytes to every parser of external bytes.
//
//     FuzzProgram list                      prints the names of the subjects
//     FuzzProgram SUBJECT seeds FOLDER      writes the valid and the stored inputs of a subject into a folder
//     FuzzProgram SUBJECT keep FOLDER N     stores the inputs in a folder, which took N seconds of processor time to find
//     FuzzProgram SUBJECT replay FILE…      parses these files, and prints violated properties
//     FuzzProgram SUBJECT fuzz ARGUMENT…    runs libFuzzer with these arguments; only in a build for it (Tests/long fuzz)
import Foundation

#if DEBUG || FUZZ
/// The subject that libFuzzer's callback uses, because a C function has no context.
nonisolated(unsafe) private var fuzzed: FuzzSubject?

let arguments = CommandLine.arguments.dropFirst()
guard let first = arguments.first else {
    print("FuzzProgram list | SUBJECT seeds FOLDER | SUBJECT replay FILE… | SUBJECT fuzz ARGUMENT…")
    exit(2)
}
if first == "list" {
    for subject in FuzzSubject.all { print(subject.name) }
    exit(0)
}
guard let chosen = FuzzSubject.all.first(where: { $0.name == first }), let action = arguments.dropFirst().first else {
    print("There is no subject '\(first)', or no action.")
    exit(2)
}
let rest = Array(arguments.dropFirst(2))
switch action {
case "seeds":
    for (index, seed) in (chosen.seeds + chosen.kept).enumerated() {
        try Data(seed).write(to: URL(fileURLWithPath: rest[0]).appendingPathComponent("seed-\(index)"))
    }
case "keep":
    guard rest.count == 2, let seconds = Int(rest[1]) else {
        print("FuzzProgram \(first) keep FOLDER SECONDS")
        exit(2)
    }
    let folder = URL(fileURLWithPath: rest[0])
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    let inputs = try names.map { Array(try Data(contentsOf: folder.appendingPathComponent($0))) }
    let corpus = try chosen.keep(inputs, seconds: seconds)
    print("\(first): \(corpus.inputs.count) inputs, \(corpus.seconds) seconds of a processor")
case "replay":
    var findings = 0
    for path in rest {
        guard let finding = chosen.finding(Array(try Data(contentsOf: URL(fileURLWithPath: path)))) else { continue }
        print("\(path): \(finding)")
        findings += 1
    }
    exit(findings == 0 ? 0 : 1)
case "fuzz":
    // The program contains the fuzzer only if it was linked for it.
    guard let symbol = dlsym(nil, "LLVMFuzzerRunDriver") else {
        print("This build has no libFuzzer in it: Tests/long fuzz makes one that has.")
        exit(2)
    }
    typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    typealias Driver =
        @convention(c) (
            UnsafeMutablePointer<Int32>, UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>, Callback
        ) -> Int32
    fuzzed = chosen
    let run = unsafeBitCast(symbol, to: Driver.self)
    // To merge inputs, libFuzzer starts this program again through a shell.
    let words = ["'\(CommandLine.arguments[0])' \(chosen.name) fuzz"] + rest
    let table = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: words.count + 1)
    for (index, word) in words.enumerated() { table[index] = strdup(word) }
    table[words.count] = nil
    var (count, pointer) = (Int32(words.count), table)
    exit(
        run(&count, &pointer) { start, count in
            let bytes = Array(UnsafeBufferPointer(start: start, count: count))
            if let finding = fuzzed?.finding(bytes) { fatalError("\(finding)") }
            return 0
        })
default:
    print("There is no action '\(action)'.")
    exit(2)
}
#endif
