// The limit: the speed of a C program that uses libcurl and the kernel directly, for exactly one purpose.
#pragma once
#include <stdint.h>

// The parameters of a run of transfers.
typedef struct {
    const char *url;
    // A file of certificates to trust, or NULL.
    const char *authority;
    // The number of warm-up requests, and the number of measured requests.
    long warm_up;
    long requests;
    int in_flight;
    // Whether all transfers share one HTTP/2 connection.
    int http2;
    // The expected size of each response; any other counts as failed.
    long expected_bytes;
    // Additional header fields of every request, as lines that each end in a line feed; or NULL.
    const char *fields;
    // Whether to save what libcurl and the kernel do again for each request on a connection: sockets stay registered,
    // and the URL's origin is parsed once.
    int tuned;
} limit_plan;

// The result of a run of transfers.
typedef struct {
    double seconds;
    double cpu_seconds;
    long failed;
    // For limit_transfers: growth of the resident memory, in kB.
    long grown_kilobytes;
} limit_result;

// Makes requests on `in_flight` easy handles, which are reused. Returns 0, or -1 if the setup fails.
int limit_requests(const limit_plan *plan, limit_result *result);

// Runs `requests` concurrent transfers, each on its own handle, until all are complete.
int limit_transfers(const limit_plan *plan, limit_result *result);

// Runs a thread that waits in epoll_wait for an eventfd, with `idle_count` further descriptors watched. Each round
// wakes the thread and waits for its answer through `reply`. Writes the nanoseconds of each round to `nanoseconds`.
int limit_wake(const int *idle, int idle_count, int reply, int rounds, uint32_t *nanoseconds);

// Pins this thread, and the threads that it starts from now on, to one core.
int limit_stay_on_one_core(void);

// Opens a listening socket on 127.0.0.1 whose connections are accepted but never answered. Returns the port, or -1.
int limit_silent_server(void);
// Returns the number of connections that the silent server has accepted.
int limit_silent_connections(void);
// Opens `count` connections to a port. Returns 0, or -1.
int limit_connect(int port, int count, int *descriptors);

// Signals the eventfd `descriptor`.
void limit_signal(int descriptor);
// Waits for the eventfd `descriptor`.
void limit_wait(int descriptor);
int limit_eventfd(void);

// Starts a server on 127.0.0.1 that accepts requests with a Content-Length, discards their bodies without copying them,
// and responds with 204. It responds to a GET with 11 bytes. Returns the port, or -1.
int limit_sink_server(void);

// Starts a server on 127.0.0.1 that responds to /live/N with N events of equal length, each sent separately, and to
// /stored/N with as many at once as fit in 64 KiB. Returns the port, or -1.
int limit_event_server(void);
// Returns the length of each event, in bytes.
long limit_event_length(void);

// Returns 1 if two files are equal, and 0 if they are not or one cannot be read.
int limit_same_files(const char *one, const char *other);

// Ends this process when the thread that started it ends.
void limit_die_with_parent(void);

// Returns the user and system time of all threads of this process, in seconds.
double limit_cpu_seconds(void);
// Returns the time of the monotonic clock, in nanoseconds.
uint64_t limit_nanoseconds(void);
// Blocks the thread until a time of the monotonic clock.
void limit_sleep_until(uint64_t nanoseconds);
// Returns a value of /proc/self/status in kB, such as "VmRSS" or "VmHWM"; -1 if it is missing.
long limit_memory(const char *key);
// Returns a value of /proc/PID/status of another process in kB; -1 if it is missing.
long limit_memory_of(int process, const char *key);
// Returns the number of bytes that are currently allocated, in all arenas.
long limit_allocated_bytes(void);
// Resets VmHWM to VmRSS.
void limit_reset_peak(void);
