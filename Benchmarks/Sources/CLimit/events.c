#define _GNU_SOURCE
#include "limit.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// All events have the same length.
static const char *const format =
    "id: %08ld\nevent: price\ndata: {\"symbol\":\"ACME\",\"number\":%08ld,\"price\":1234.50,\"currency\":\"EUR\"}\n\n";

static int write_event(char *buffer, size_t size, long number) {
    return snprintf(buffer, size, format, number, number);
}

long limit_event_length(void) {
    char event[256];
    return write_event(event, sizeof event, 0);
}

static int send_all(int client, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(client, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0) return -1;
        bytes += sent;
        count -= sent;
    }
    return 0;
}

// `/live/N` sends N events, each separately, and `/stored/N` sends as many at once as fit in 64 KiB. A client that
// reconnects with the identifier of an event gets no more events.
static void *serve_client(void *context) {
    int client = (int)(intptr_t)context;
    char head[16384], buffer[65536];
    size_t used = 0;
    head[0] = 0;
    while (!strstr(head, "\r\n\r\n") && used < sizeof head - 1) {
        ssize_t count = recv(client, head + used, sizeof head - 1 - used, 0);
        if (count <= 0) break;
        used += count;
        head[used] = 0;
    }
    int is_live = strncmp(head, "GET /live/", 10) == 0;
    long count = atol(head + (is_live ? 10 : 12));
    static const char *const begin =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    static const char *const no_more = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    if (strcasestr(head, "\r\nlast-event-id:")) {
        send_all(client, no_more, strlen(no_more));
    } else if (send_all(client, begin, strlen(begin)) == 0) {
        size_t filled = 0;
        for (long number = 0; number < count; number++) {
            filled += write_event(buffer + filled, sizeof buffer - filled, number);
            if (!is_live && number < count - 1 && filled + 256 < sizeof buffer) continue;
            if (send_all(client, buffer, filled)) break;
            filled = 0;
        }
    }
    shutdown(client, SHUT_WR);
    while (recv(client, head, sizeof head, 0) > 0) {}
    close(client);
    return 0;
}

int limit_event_server(void) { return limit_serve(serve_client); }
