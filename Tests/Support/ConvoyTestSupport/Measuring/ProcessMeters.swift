import CEpoll
import Foundation

/// The resources that this process uses now.
public enum ProcessMeters {
    /// The number of open file descriptors.
    public static var openDescriptors: Int {
        // Omit the descriptor that the listing itself has open.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return max(0, names.count - 1)
    }

    /// The target of each open descriptor, for the message of a test that found too many of them.
    public static var descriptorTargets: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")).map { "\(name) \($0)" }
        }
    }

    /// The resident memory, in kB (VmRSS).
    public static var residentKilobytes: Int { status("VmRSS:") }

    /// The peak of resident memory, in kB (VmHWM).
    public static var peakResidentKilobytes: Int { status("VmHWM:") }

    /// Resets the peak to the current resident memory. Returns false if the kernel does not allow it.
    public static func resetPeak() -> Bool {
        let file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        return write(file, "5", 1) == 1
    }

    /// The number of allocated bytes. Unlike resident memory, it does not grow by fragmentation; unlike a count of
    /// objects, it includes all buffers and tables. 0 under a sanitizer, which has its own allocator.
    public static var allocatedBytes: Int { cepoll_bytes_in_use() }

    /// Whether the address sanitizer keeps freed memory, so that resident memory is meaningless.
    public static let holdsOnToFreedMemory = dlsym(nil, "__asan_init") != nil

    /// The number of threads.
    public static var threads: Int { status("Threads:") }

    /// Raises the soft limit of open descriptors to the hard limit, and returns it. Thousands of connections with both
    /// ends in one process need more than the usual 1,024.
    @discardableResult
    public static func raiseDescriptorLimit() -> Int {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0 else { return 0 }
        limit.rlim_cur = limit.rlim_max
        setrlimit(kind, &limit)
        getrlimit(kind, &limit)
        return Int(clamping: limit.rlim_cur)
    }

    private static func status(_ key: String) -> Int {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
        for line in text.split(separator: "\n") where line.hasPrefix(key) {
            return line.split { $0 == " " || $0 == "\t" }.dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return 0
    }
}
