import Foundation

/// A library for a process that simulates setting the system clock, including the effect on waits by that clock.
public struct JumpingClock: Sendable {
    private let shift: URL
    private let library: URL

    /// Compiles the library in a directory.
    ///
    /// - Throws: `ProcessError`.
    public init(in directory: URL) throws {
        shift = directory.appendingPathComponent("shift")
        library = directory.appendingPathComponent("clock.so")
        try jump(by: 0)
        let source = directory.appendingPathComponent("clock.c")
        try Data(Self.source.utf8).write(to: source)
        let compiled = try ProcessRunner.run("cc", ["-shared", "-fPIC", "-w", "-o", library.path, source.path, "-ldl"])
        guard compiled.status == 0 else { throw ProcessError.didNotStart("cc: \(compiled.errorText)") }
    }

    /// The environment of the process.
    public var environment: [String: String] { ["LD_PRELOAD": library.path, "CLOCK_SHIFT": shift.path] }

    /// Sets the clock to the given number of seconds after the real time.
    public func jump(by seconds: Int64) throws {
        let data = withUnsafeBytes(of: seconds) { Data($0) }
        guard FileManager.default.fileExists(atPath: shift.path) else { return try data.write(to: shift) }
        // The process has mapped the file.
        let handle = try FileHandle(forWritingTo: shift)
        try handle.write(contentsOf: data)
        try handle.close()
    }

    private static let source = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>

        static volatile long *shift;
        static int (*real_clock)(clockid_t, struct timespec *);
        static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

        static void prepare(void) {
            static long none;
            if (shift) return;
            real_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
            if (!real_wait) real_wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
            real_clock = dlsym(RTLD_NEXT, "clock_gettime");
            int file = getenv("CLOCK_SHIFT") ? open(getenv("CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC) : -1;
            void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
            if (file >= 0) close(file);
            shift = mapped == MAP_FAILED ? &none : mapped;
        }

        __attribute__((constructor)) static void start(void) { prepare(); }

        int clock_gettime(clockid_t clock, struct timespec *time) {
            prepare();
            int result = real_clock(clock, time);
            if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += *shift;
            return result;
        }

        int gettimeofday(struct timeval *time, void *zone) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            time->tv_sec = now.tv_sec;
            time->tv_usec = now.tv_nsec / 1000;
            return 0;
        }

        time_t time(time_t *result) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (result) *result = now.tv_sec;
            return now.tv_sec;
        }

        int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
            prepare();
            // glibc keeps the clock of a condition in this bit: set for CLOCK_MONOTONIC.
            if (condition->__data.__wrefs & 2) return real_wait(condition, mutex, end);
            for (;;) {
                struct timespec now, slice;
                real_clock(CLOCK_REALTIME, &now);
                slice.tv_sec = now.tv_sec;
                slice.tv_nsec = now.tv_nsec + 20000000;
                if (slice.tv_nsec >= 1000000000) { slice.tv_sec++; slice.tv_nsec -= 1000000000; }
                struct timespec rest = *end;
                rest.tv_sec -= *shift;
                int isLast = rest.tv_sec < slice.tv_sec || (rest.tv_sec == slice.tv_sec && rest.tv_nsec <= slice.tv_nsec);
                int result = real_wait(condition, mutex, isLast ? &rest : &slice);
                if (result != ETIMEDOUT || isLast) return result;
            }
        }
        """
}
