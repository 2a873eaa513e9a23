import ConvoyTestSupport
import Foundation

/// The counts of valgrind's callgrind for a run of this program.
struct CallgrindProfile {
    /// The number of instructions in user space.
    private(set) var instructions = 0
    /// The number of calls of `swift_retain` and `swift_release`. A call with a count is counted once.
    private(set) var retainsAndReleases = 0
    /// The number of calls of `malloc` and related functions, including those of libcurl.
    private(set) var allocations = 0
    /// The number of locks acquired by this program itself, excluding those of libcurl, Foundation and libdispatch.
    private(set) var locks = 0

    /// A copy of this program without debug information, which takes valgrind very long to read.
    struct Program {
        private let path: String
        private let directory: TemporaryDirectory
        private let mutexInstructions: Set<UInt64>

        /// - Throws: `ProcessError.notInstalled` if valgrind or binutils is missing.
        init() throws {
            directory = try TemporaryDirectory(prefix: "convoy-instructions")
            path = directory.file("convoy-bench").path
            let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let copying = try ProcessRunner.run("strip", ["--strip-debug", "-o", path, executable], timeout: 600)
            guard copying.status == 0 else { throw BenchError("strip: \(copying.errorText)") }
            let disassembly = try ProcessRunner.run("objdump", ["-d", "--no-show-raw-insn", path], timeout: 600)
            guard disassembly.status == 0 else { throw BenchError("objdump: \(disassembly.errorText)") }
            mutexInstructions = Self.mutexInstructions(disassembly.output)
        }

        /// Runs this program with arguments.
        func run(_ arguments: [String]) throws -> CallgrindProfile {
            let output = directory.file("callgrind.out")
            let result = try ProcessRunner.run(
                "valgrind",
                [
                    "--tool=callgrind", "--vgdb=no", "--callgrind-out-file=\(output.path)", "--dump-instr=yes",
                    "--compress-pos=no", path,
                ] + arguments, timeout: 600)
            guard result.status == 0 else { throw BenchError("valgrind: \(result.errorText.suffix(2000))") }
            return CallgrindProfile(
                try Data(contentsOf: output), program: path, mutexInstructions: mutexInstructions)
        }

        /// Removes the copy.
        func remove() { directory.remove() }

        /// Returns the addresses of the instructions that acquire and release a `Mutex`, which the compiler inlines: a
        /// compare-and-exchange after looking up this thread's number, for which the first use calls the kernel
        /// (`gettid`).
        private static func mutexInstructions(_ disassembly: Data) -> Set<UInt64> {
            var addresses: Set<UInt64> = []
            var linesAfterNumber = Int.max
            let (number, exchange) = (Data("$0xba,%edi".utf8), Data("lock cmpxchg".utf8))
            for line in disassembly.split(separator: UInt8(ascii: "\n")) {
                if line.range(of: number) != nil { linesAfterNumber = 0 }
                guard linesAfterNumber < 12 else { continue }
                linesAfterNumber += 1
                guard line.range(of: exchange) != nil,
                    let colon = line.firstIndex(of: UInt8(ascii: ":")),
                    let address = UInt64(
                        String(decoding: line[..<colon], as: UTF8.self).trimmingCharacters(in: .whitespaces), radix: 16)
                else { continue }
                addresses.insert(address)
                linesAfterNumber = Int.max
            }
            return addresses
        }
    }

    private init(_ file: Data, program: String, mutexInstructions: Set<UInt64>) {
        var names = Names(), objects = Names()
        var (isOwn, isCost) = (false, true)
        var callee = Callee.other
        var mutexSteps = 0
        for line in file.split(separator: UInt8(ascii: "\n")) {
            let text = { String(decoding: line.drop { $0 != UInt8(ascii: "=") }.dropFirst(), as: UTF8.self) }
            switch line.first {
            case UInt8(ascii: "o") where line.starts(with: "ob=".utf8): isOwn = objects.resolve(text()) == program
            case UInt8(ascii: "f") where line.starts(with: "fn=".utf8): _ = names.resolve(text())
            case UInt8(ascii: "c") where line.starts(with: "cob=".utf8): _ = objects.resolve(text())
            case UInt8(ascii: "c") where line.starts(with: "cfn=".utf8): callee = Callee(names.resolve(text()))
            case UInt8(ascii: "c") where line.starts(with: "calls=".utf8):
                let count = text().split(separator: " ").first.flatMap { Int($0) } ?? 0
                switch callee {
                case .counting: retainsAndReleases += count
                case .allocation: allocations += count
                case .lock where isOwn: locks += count
                default: break
                }
                // The next line specifies the cost of the calls.
                isCost = false
            case UInt8(ascii: "s") where line.starts(with: "summary:".utf8),
                UInt8(ascii: "t") where line.starts(with: "totals:".utf8):
                let count = line.drop { $0 != UInt8(ascii: " ") }.dropFirst()
                instructions = Int(String(decoding: count, as: UTF8.self)) ?? instructions
            case UInt8(ascii: "0"):
                defer { isCost = true }
                guard isOwn, isCost else { continue }
                let fields = line.split(separator: UInt8(ascii: " "))
                guard fields.count == 3,
                    let address = UInt64(String(decoding: fields[0].dropFirst(2), as: UTF8.self), radix: 16),
                    mutexInstructions.contains(address)
                else { continue }
                mutexSteps += Int(String(decoding: fields[2], as: UTF8.self)) ?? 0
            default: break
            }
        }
        // Each lock is acquired and released.
        locks += mutexSteps / 2
    }

    /// A function whose calls are counted.
    private enum Callee {
        case counting, allocation, lock, other

        init(_ name: String) {
            // The name of a recursive call has a number appended.
            switch name.prefix(while: { $0 != "'" }) {
            case "swift_retain", "swift_retain_n", "swift_release", "swift_release_n": self = .counting
            case "malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc": self = .allocation
            case "pthread_mutex_lock", "pthread_mutex_lock@@GLIBC_2.2.5": self = .lock
            default: self = .other
            }
        }
    }

    /// Names that callgrind writes once, with a number that represents them afterwards: `(12) malloc`, `(12)`.
    private struct Names {
        private var all: [Substring: String] = [:]

        mutating func resolve(_ text: String) -> String {
            guard let end = text.firstIndex(of: ")") else { return text }
            let number = text[...end]
            let name = text[text.index(after: end)...].drop { $0 == " " }
            if name.isEmpty { return all[number] ?? "" }
            all[number] = String(name)
            return String(name)
        }
    }
}
