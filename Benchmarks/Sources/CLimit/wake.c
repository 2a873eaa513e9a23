#define _GNU_SOURCE
#include "limit.h"
#include "server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

void limit_signal(int descriptor) {
    uint64_t one = 1;
    if (write(descriptor, &one, sizeof one) < 0) return;
}

void limit_wait(int descriptor) {
    uint64_t count;
    while (read(descriptor, &count, sizeof count) < 0) {}
}

int limit_eventfd(void) { return eventfd(0, EFD_CLOEXEC); }

typedef struct {
    int epoll, wake, reply, rounds;
} waker;

static void *run_loop(void *context) {
    waker *w = context;
    struct epoll_event ready[64];
    for (int round = 0; round < w->rounds;) {
        int count = epoll_wait(w->epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd != w->wake) continue;
            limit_wait(w->wake);
            round++;
            limit_signal(w->reply);
        }
    }
    return 0;
}

int limit_wake(const int *idle, int idle_count, int reply, int rounds, uint32_t *nanoseconds) {
    waker w = {.epoll = epoll_create1(EPOLL_CLOEXEC), .wake = limit_eventfd(), .reply = reply, .rounds = rounds};
    if (w.epoll < 0 || w.wake < 0) return -1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = w.wake};
    if (epoll_ctl(w.epoll, EPOLL_CTL_ADD, w.wake, &event)) return -1;
    for (int i = 0; i < idle_count; i++) {
        event.data.fd = idle[i];
        if (epoll_ctl(w.epoll, EPOLL_CTL_ADD, idle[i], &event)) return -1;
    }
    pthread_t thread;
    if (pthread_create(&thread, 0, run_loop, &w)) return -1;
    for (int round = 0; round < rounds; round++) {
        uint64_t start = limit_nanoseconds();
        limit_signal(w.wake);
        limit_wait(reply);
        nanoseconds[round] = (uint32_t)(limit_nanoseconds() - start);
    }
    pthread_join(thread, 0);
    close(w.epoll);
    close(w.wake);
    return 0;
}

int limit_stay_on_one_core(void) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(sched_getcpu(), &cores);
    return sched_setaffinity(0, sizeof cores, &cores);
}

static atomic_int accepted;

static void *accept_all(void *context) {
    int listener = (int)(intptr_t)context;
    // The connections stay open until the process ends.
    while (accept(listener, 0, 0) >= 0) atomic_fetch_add(&accepted, 1);
    return 0;
}

int limit_silent_server(void) { return limit_listen(4096, accept_all); }

int limit_silent_connections(void) { return atomic_load(&accepted); }

int limit_connect(int port, int count, int *descriptors) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < count; i++) {
        descriptors[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptors[i] < 0 || connect(descriptors[i], (struct sockaddr *)&address, sizeof address)) return -1;
    }
    return 0;
}
