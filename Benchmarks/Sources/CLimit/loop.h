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
    // Whether sockets stay registered between requests, until they are closed; not used for HTTP/2.
    int keeps_sockets;
    // The events for which each of the first sockets is registered, and those that libcurl waits for.
    uint32_t registered[1024], wanted[1024];
} limit_loop;

int limit_loop_open(limit_loop *loop);
void limit_loop_close(limit_loop *loop);
// Makes a handle's sockets stay registered. Returns 0, or -1.
int limit_loop_keep_sockets(limit_loop *loop, CURL *easy);
// Waits for events if necessary, and lets libcurl handle them.
void limit_loop_turn(limit_loop *loop);
