#pragma once
#include <curl/curl.h>
#include <stdint.h>

// libcurl's multi interface on one epoll descriptor.
typedef struct {
    CURLM *multi;
    int epoll;
    // The deadline on the monotonic clock, in nanoseconds; 0 if there is none.
    uint64_t deadline;
    int is_due;
} limit_loop;

int limit_loop_open(limit_loop *loop);
void limit_loop_close(limit_loop *loop);
// Waits for events if necessary, and lets libcurl handle them.
void limit_loop_turn(limit_loop *loop);
