// The limit: the speed of a C program that uses libcurl and the kernel directly, for exactly one purpose.
#pragma once
#include <stdint.h>

// The parameters of a run of transfers.
typedef struct {
    const char *url;
    // A file of certificates to trust, or NULL.
    const char *authority;
    // How many requests are made for warming up, and how many are measured.
    long warm_up;
    long requests;
    int in_flight;
    // Every transfer on one HTTP/2 connection.
    int http2;
    // What each response must have; otherwise it counts as failed.
    long expected_bytes;
    // Header fields that every request has besides libcurl's own, as lines that each end in '\n'; or NULL.
    const char *fields;
} limit_plan;

// The result.
typedef struct {
    double seconds;
    double cpu_seconds;
    long failed;
    // For limit_transfers: growth of the resident memory, in kB.
    long grown_kilobytes;
} limit_result;

// Makes requests on `in_flight` easy handles, which are reused. Returns 0, or -1 if it could not be set up.
int limit_requests(const limit_plan *plan, limit_result *result);

// `requests` transfers at once, each on a handle of its own, until all are complete.
int limit_transfers(const limit_plan *plan, limit_result *result);

// A thread that waits in epoll_wait for an eventfd, with `idle_count` further descriptors watched. Each round wakes it
// and waits for its answer through `reply`. Writes the nanoseconds of each round into `nanoseconds`.
int limit_wake(const int *idle, int idle_count, int reply, int rounds, uint32_t *nanoseconds);

// Pins this thread, and the threads that it starts from now on, to one core.
int limit_stay_on_one_core(void);

// A listening socket on 127.0.0.1 whose connections are accepted and never answered. Returns the port, or -1.
int limit_silent_server(void);
// How many connections it has accepted.
int limit_silent_connections(void);
// Opens `count` connections to it. Returns 0, or -1.
int limit_connect(int port, int count, int *descriptors);

// Signals the eventfd `descriptor`.
void limit_signal(int descriptor);
// Waits for the eventfd `descriptor`.
void limit_wait(int descriptor);
int limit_eventfd(void);

// A server on 127.0.0.1 that takes requests with a Content-Length, discards their bodies without copying them, and
// answers 204; a GET is answered with 11 bytes. Returns the port, or -1.
int limit_sink_server(void);

// A server on 127.0.0.1 that answers /live/N with N events of one length, each sent by itself, and /stored/N with as many
// at once as fit in 64 KiB. Returns the port, or -1.
int limit_event_server(void);
// The bytes of each event.
long limit_event_length(void);

// Whether two files are equal: 1, or 0 if not, or if one cannot be read.
int limit_same_files(const char *one, const char *other);

// Makes this process end when the thread that started it ends.
void limit_die_with_parent(void);

// User and system time of this process with all its threads, in seconds.
double limit_cpu_seconds(void);
// The monotonic clock.
uint64_t limit_nanoseconds(void);
// Blocks the thread until a time of that clock.
void limit_sleep_until(uint64_t nanoseconds);
// A value of /proc/self/status in kB: "VmRSS" or "VmHWM"; -1 if there is none.
long limit_memory(const char *key);
// The same of another process.
long limit_memory_of(int process, const char *key);
// The bytes that are currently allocated, in all arenas.
long limit_allocated_bytes(void);
// Resets VmHWM to VmRSS.
void limit_reset_peak(void);
