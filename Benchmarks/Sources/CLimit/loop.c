#include "loop.h"
#include "limit.h"

#include <sys/epoll.h>
#include <unistd.h>

static int is_kept(limit_loop *loop, curl_socket_t socket) {
    return loop->keeps_sockets && socket < (int)(sizeof loop->registered / sizeof *loop->registered);
}

static int keep_socket(limit_loop *loop, curl_socket_t socket, int what) {
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (what == CURL_POLL_REMOVE) events = 0;
    loop->wanted[socket] = events;
    if (events == 0 || events == loop->registered[socket]) return 0;
    struct epoll_event event = {.data.fd = socket, .events = events};
    epoll_ctl(loop->epoll, loop->registered[socket] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
    loop->registered[socket] = events;
    return 0;
}

static int on_close(void *context, curl_socket_t socket) {
    limit_loop *loop = context;
    if (is_kept(loop, socket)) loop->registered[socket] = loop->wanted[socket] = 0;
    return close(socket);
}

int limit_loop_keep_sockets(limit_loop *loop, CURL *easy) {
    loop->keeps_sockets = 1;
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close)
        || curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, loop) ? -1 : 0;
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known) {
    (void)easy;
    limit_loop *loop = context;
    if (is_kept(loop, socket)) return keep_socket(loop, socket, what);
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, socket, 0);
        return 0;
    }
    struct epoll_event event = {.data.fd = socket};
    if (what & CURL_POLL_IN) event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
    epoll_ctl(loop->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
    if (!known) curl_multi_assign(loop->multi, socket, loop);
    return 0;
}

static int on_timer(CURLM *multi, long milliseconds, void *context) {
    (void)multi;
    limit_loop *loop = context;
    loop->is_due = milliseconds == 0;
    loop->deadline = milliseconds > 0 ? limit_nanoseconds() + (uint64_t)milliseconds * 1000000 : 0;
    return 0;
}

int limit_loop_open(limit_loop *loop) {
    *loop = (limit_loop){.epoll = epoll_create1(EPOLL_CLOEXEC), .multi = curl_multi_init()};
    if (loop->epoll < 0 || !loop->multi) return -1;
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop);
    return 0;
}

void limit_loop_close(limit_loop *loop) {
    curl_multi_cleanup(loop->multi);
    close(loop->epoll);
}

void limit_loop_turn(limit_loop *loop) {
    struct epoll_event ready[256];
    int running;
    if (loop->is_due) {
        loop->is_due = 0;
        curl_multi_socket_action(loop->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        return;
    }
    int timeout = -1;
    if (loop->deadline) {
        uint64_t now = limit_nanoseconds();
        timeout = loop->deadline > now ? (int)((loop->deadline - now + 999999) / 1000000) : 0;
    }
    int count = epoll_wait(loop->epoll, ready, 256, timeout);
    for (int i = 0; i < count; i++) {
        int socket = ready[i].data.fd;
        if (is_kept(loop, socket) && !loop->wanted[socket]) {
            epoll_ctl(loop->epoll, EPOLL_CTL_DEL, socket, 0);
            loop->registered[socket] = 0;
            continue;
        }
        int mask = 0;
        if (ready[i].events & EPOLLIN) mask |= CURL_CSELECT_IN;
        if (ready[i].events & EPOLLOUT) mask |= CURL_CSELECT_OUT;
        if (ready[i].events & (EPOLLERR | EPOLLHUP)) mask |= CURL_CSELECT_ERR;
        curl_multi_socket_action(loop->multi, socket, mask, &running);
    }
    if (loop->deadline && limit_nanoseconds() >= loop->deadline) {
        loop->deadline = 0;
        curl_multi_socket_action(loop->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}
