import CCurl
import Foundation

/// The memory functions for libcurl. All memory comes from the C library, so that anybody may free it.
///
/// Two things that libcurl does for each transfer are slow in glibc. It allocates a receive buffer, and an allocation
/// of that size makes glibc consolidate freed chunks; so a network thread keeps a few of these buffers. And it uses
/// `calloc`, which, unlike `malloc`, does not use glibc's per-thread cache.
///
/// libcurl keeps the functions of its first initialization: if the program has initialized it before, these are not
/// used.
enum TransferMemory {
    /// The buffers that a thread keeps.
    private final class Shelf {
        var blocks: [UnsafeMutableRawPointer] = []

        init() { blocks.reserveCapacity(TransferMemory.mostKept) }

        deinit {
            for block in blocks { free(block) }
        }
    }

    /// The sizes that are kept: those of receive buffers.
    private static let keptSizes = (16 << 10)...(48 << 10)
    private static let mostKept = 64
    /// Up to this size glibc has a per-thread cache.
    private static let smallest = 1024

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { shelf in
            if let shelf { Unmanaged<Shelf>.fromOpaque(shelf).release() }
        }
        return key
    }()

    /// Makes the calling thread keep buffers from now on, until it ends.
    static func adoptThread() {
        guard pthread_getspecific(key) == nil else { return }
        pthread_setspecific(key, Unmanaged.passRetained(Shelf()).toOpaque())
    }

    /// Initializes libcurl with these functions.
    static func initializeLibrary() -> CURLcode {
        _ = key
        return curl_global_init_mem(
            Int(CURL_GLOBAL_ALL), { TransferMemory.allocate($0) }, { TransferMemory.release($0) }, { realloc($0, $1) },
            { $0.flatMap { strdup($0) } },
            { count, size in
                let (bytes, isTooMuch) = count.multipliedReportingOverflow(by: size)
                // A large block may be fresh from the system, and so already zero.
                guard !isTooMuch, bytes <= TransferMemory.smallest else { return calloc(count, size) }
                return malloc(bytes).map { memset($0, 0, bytes) }
            })
    }

    private static func allocate(_ size: Int) -> UnsafeMutableRawPointer? {
        guard keptSizes.contains(size), let shelf = pthread_getspecific(key) else { return malloc(size) }
        return Unmanaged<Shelf>.fromOpaque(shelf)._withUnsafeGuaranteedRef { shelf in
            guard let last = shelf.blocks.last, malloc_usable_size(last) >= size else { return malloc(size) }
            return shelf.blocks.removeLast()
        }
    }

    private static func release(_ block: UnsafeMutableRawPointer?) {
        guard let block else { return }
        guard keptSizes.contains(malloc_usable_size(block)), let shelf = pthread_getspecific(key) else { return free(block) }
        Unmanaged<Shelf>.fromOpaque(shelf)._withUnsafeGuaranteedRef { shelf in
            if shelf.blocks.count < mostKept { shelf.blocks.append(block) } else { free(block) }
        }
    }
}
