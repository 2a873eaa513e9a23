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

// Receives one request, with its head in `head`, of which `used` bytes were received earlier. Returns -1 at the end of
// the connection.
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
    int is_get = strncmp(head, "GET ", 4) == 0;
    char *field = strcasestr(head, "\r\ncontent-length:");
    long long left = field && field < end ? atoll(field + 17) : 0;
    // In a tus upload, a creation specifies the length, and a part its offset.
    char *offset = strcasestr(head, "\r\nupload-offset:");
    char *length = strcasestr(head, "\r\nupload-length:");
    long long reached = offset && offset < end ? atoll(offset + 16) + left : -1;
    int creates = reached < 0 && length && length < end;
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
    if (creates) {
        return answer(
            client, "HTTP/1.1 201 Created\r\nTus-Resumable: 1.0.0\r\nLocation: /upload/1\r\nContent-Length: 0\r\n\r\n");
    }
    if (is_get) return answer(client, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world");
    if (reached < 0) return answer(client, "HTTP/1.1 204 No Content\r\n\r\n");
    char text[128];
    snprintf(
        text, sizeof text, "HTTP/1.1 204 No Content\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: %lld\r\n\r\n", reached);
    return answer(client, text);
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
