import CCurl
import Foundation

/// The memory that libcurl asks for. All of it is the C library's, so that whoever frees it may be anybody.
///
/// Two things that libcurl does for each transfer are slow in glibc. It allocates a receive buffer anew, and an
/// allocation of that size makes glibc put together all that has been freed before; so a network thread keeps a few of
/// these buffers. And `calloc` takes nothing from the thread's own cache of glibc's, as `malloc` does.
///
/// libcurl keeps to the first functions that it is given: where a program has initialized it before, this is not used.
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
    /// Up to this size glibc has a cache for each thread.
    private static let smallest = 1024

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { shelf in
            if let shelf { Unmanaged<Shelf>.fromOpaque(shelf).release() }
        }
        return key
    }()

    /// From now on the calling thread keeps buffers, until it ends.
    static func adoptThread() {
        guard pthread_getspecific(key) == nil else { return }
        pthread_setspecific(key, Unmanaged.passRetained(Shelf()).toOpaque())
    }

    /// Makes libcurl ready, with these functions.
    static func initializeLibrary() -> CURLcode {
        _ = key
        return curl_global_init_mem(
            Int(CURL_GLOBAL_ALL), { TransferMemory.allocate($0) }, { TransferMemory.release($0) }, { realloc($0, $1) },
            { $0.flatMap { strdup($0) } },
            { count, size in
                let (bytes, isTooMuch) = count.multipliedReportingOverflow(by: size)
                // What is large may be new, and need not be touched.
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
