#define _GNU_SOURCE
#include "limit.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int answer(int client, const char *text) {
    return send(client, text, strlen(text), MSG_NOSIGNAL) < 0 ? -1 : 0;
}

// Receives one request: its head into `head`, of which `used` bytes have already come. Returns -1 at the end of the
// connection.
static int take_request(int client, char *head, size_t size, size_t *used) {
    char *end;
    head[*used] = 0;
    while (!(end = strstr(head, "\r\n\r\n"))) {
        ssize_t count = recv(client, head + *used, size - 1 - *used, 0);
        if (count <= 0) return -1;
        *used += count;
        head[*used] = 0;
    }
    end += 4;
    char *field = strcasestr(head, "\r\ncontent-length:");
    long long left = field && field < end ? atoll(field + 17) : 0;
    char *expect = strcasestr(head, "\r\nexpect: 100-continue");
    if (expect && expect < end && answer(client, "HTTP/1.1 100 Continue\r\n\r\n")) return -1;
    size_t behind = *used - (end - head);
    size_t taken = (long long)behind < left ? behind : (size_t)left;
    left -= taken;
    memmove(head, end + taken, behind - taken);
    *used = behind - taken;
    while (left > 0) {
        // With MSG_TRUNC, TCP discards the bytes without copying them.
        ssize_t count = recv(client, 0, left < 1 << 20 ? (size_t)left : 1 << 20, MSG_TRUNC);
        if (count <= 0) return -1;
        left -= count;
    }
    return answer(client, "HTTP/1.1 204 No Content\r\n\r\n");
}

static void *serve_client(void *context) {
    int client = (int)(intptr_t)context;
    char head[16384];
    size_t used = 0;
    while (take_request(client, head, sizeof head, &used) == 0) {}
    close(client);
    return 0;
}

int limit_sink_server(void) { return limit_serve(serve_client); }

void limit_die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }
