#pragma once
#if defined(__has_include) && !__has_include(<libpq-fe.h>)
#error "libpq's headers are missing; the package trait Postgres needs them. Debian/Ubuntu: sudo apt-get install libpq-dev   Fedora: sudo dnf install libpq-devel"
#else
#include <libpq-fe.h>

// libpq prints notices of the server on standard error unless it is given another place for them.
static inline void convoy_ignore_notice(void *context, const PGresult *result) {
    (void)context;
    (void)result;
}
static inline void convoy_ignore_notices(PGconn *connection) {
    PQsetNoticeReceiver(connection, convoy_ignore_notice, NULL);
}
#endif
