// Preloaded into TortureProgram. Counts the calls made by the program itself, but not those between libraries, and makes one
// of them fail, or all of them from one call on.
//
//   TORTURE_COUNTS   a file of CALL_COUNT counters of 32 bits, which outlive a crash; the last one counts failures
//   TORTURE_CALL     the number of the call in calls.h
//   TORTURE_NUMBER   the number of the first failing call, starting at 1
//   TORTURE_ALWAYS   whether all later calls fail as well
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
#define CALL(name, value, error) number_##name,
#include "calls.h"
#undef CALL
    number_curl_memory, number_sqlite_memory, number_failures, CALL_COUNT
};

static _Atomic uint32_t nowhere[CALL_COUNT];
static _Atomic uint32_t *counts = nowhere;
static int chosen = -1, always;
static uint32_t wanted;
static uintptr_t program_start, program_end;

static int find_program(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        if (info->dlpi_phdr[index].p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[index].p_vaddr;
        if (!program_start || start < program_start) program_start = start;
        if (start + info->dlpi_phdr[index].p_memsz > program_end) program_end = start + info->dlpi_phdr[index].p_memsz;
    }
    return 1;  // The first object is the program.
}

static int fails(int number) {
    uint32_t count = atomic_fetch_add(&counts[number], 1) + 1;
    if (number != chosen || (always ? count < wanted : count != wanted)) return 0;
    atomic_fetch_add(&counts[number_failures], 1);
    return 1;
}

static int is_own(void *caller) { return (uintptr_t)caller >= program_start && (uintptr_t)caller < program_end; }

// Only writes to an eventfd have eight bytes, and these never fail.
#define is_wakeup(number, length) ((number) == number_write && (length) == 8)

// For calls with at most eight arguments, which are integers or pointers. Registers beyond the last argument are passed on
// unexamined. The functions have names for the linker only, because the compiler declares them with other types.
#define CALL(name, value, error)                                                                     \
    long own_##name(long a, long b, long c, long d, long e, long f, long g, long h) __asm__(#name);  \
    long own_##name(long a, long b, long c, long d, long e, long f, long g, long h) {                \
        static long (*real)(long, long, long, long, long, long, long, long);                         \
        if (!real) real = (long (*)(long, long, long, long, long, long, long, long))dlsym(RTLD_NEXT, #name); \
        if (is_own(__builtin_return_address(0)) && !is_wakeup(number_##name, c) && fails(number_##name)) { \
            if (error) errno = error;                                                                \
            return (long)(value);                                                                    \
        }                                                                                            \
        return real(a, b, c, d, e, f, g, h);                                                         \
    }
#include "calls.h"
#undef CALL

// Allocations of libcurl and SQLite fail through the hooks of these libraries.
typedef int (*global_init_mem)(long, void *(*)(size_t), void (*)(void *), void *(*)(void *, size_t), char *(*)(const char *), void *(*)(size_t, size_t));
static void *curl_allocate(size_t size) { return fails(number_curl_memory) ? NULL : malloc(size); }
static void *curl_reallocate(void *block, size_t size) { return fails(number_curl_memory) ? NULL : realloc(block, size); }
static void *curl_clear(size_t count, size_t size) { return fails(number_curl_memory) ? NULL : calloc(count, size); }
static char *curl_copy(const char *text) { return fails(number_curl_memory) ? NULL : strdup(text); }
int curl_global_init(long flags) {
    global_init_mem real = (global_init_mem)dlsym(RTLD_NEXT, "curl_global_init_mem");
    return real(flags, curl_allocate, free, curl_reallocate, curl_copy, curl_clear);
}

struct sqlite_memory {
    void *(*allocate)(int);
    void (*release)(void *);
    void *(*reallocate)(void *, int);
    void *others[5];
};
static struct sqlite_memory real_memory;
static void *sqlite_allocate(int size) { return fails(number_sqlite_memory) ? NULL : real_memory.allocate(size); }
static void *sqlite_reallocate(void *block, int size) { return fails(number_sqlite_memory) ? NULL : real_memory.reallocate(block, size); }

__attribute__((constructor)) static void begin(void) {
    dl_iterate_phdr(find_program, NULL);
    const char *path = getenv("TORTURE_COUNTS");
    int file = path ? open(path, O_RDWR) : -1;
    if (file >= 0) {
        void *memory = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) counts = memory;
        close(file);
    }
    int (*configure)(int, ...) = (int (*)(int, ...))dlsym(RTLD_DEFAULT, "sqlite3_config");
    if (configure && configure(5 /* SQLITE_CONFIG_GETMALLOC */, &real_memory) == 0) {
        struct sqlite_memory memory = real_memory;
        memory.allocate = sqlite_allocate;
        memory.reallocate = sqlite_reallocate;
        configure(4 /* SQLITE_CONFIG_MALLOC */, &memory);
    }
    const char *call = getenv("TORTURE_CALL"), *number = getenv("TORTURE_NUMBER");
    always = getenv("TORTURE_ALWAYS") != NULL;
    if (number) wanted = (uint32_t)strtoul(number, NULL, 10);
    if (call) chosen = atoi(call);
}
