#pragma once

// Servers on free ports of the loopback interface, which run until the process ends.

// Calls `accept_all` on a thread with the listening socket. Returns the port, or -1.
int limit_listen(int backlog, void *(*accept_all)(void *listener));

// Calls `serve_client` on a thread for each connection, which it must close. Returns the port, or -1.
int limit_serve(void *(*serve_client)(void *client));
