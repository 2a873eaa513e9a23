#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

// Opens a listening socket on a free port, and stores the port in `port`.
static int open_listener(int backlog, int *port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, backlog)) return -1;
    if (getsockname(listener, (struct sockaddr *)&address, &length)) return -1;
    *port = ntohs(address.sin_port);
    return listener;
}

static int detach(void *(*body)(void *), void *context) {
    pthread_t thread;
    if (pthread_create(&thread, 0, body, context)) return -1;
    return pthread_detach(thread);
}

int limit_listen(int backlog, void *(*accept_all)(void *)) {
    int port, listener = open_listener(backlog, &port);
    return listener < 0 || detach(accept_all, (void *)(intptr_t)listener) ? -1 : port;
}

typedef struct {
    int listener;
    void *(*serve_client)(void *);
} server;

static void *serve(void *context) {
    server *own = context;
    int client;
    while ((client = accept(own->listener, 0, 0)) >= 0) {
        if (detach(own->serve_client, (void *)(intptr_t)client)) close(client);
    }
    free(own);
    return 0;
}

int limit_serve(void *(*serve_client)(void *)) {
    server *own = malloc(sizeof *own);
    int port;
    own->listener = open_listener(64, &port);
    own->serve_client = serve_client;
    if (own->listener >= 0 && detach(serve, own) == 0) return port;
    free(own);
    return -1;
}
