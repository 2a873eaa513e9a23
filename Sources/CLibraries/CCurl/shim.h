// Swift cannot call variadic C functions, so there is a typed inline function for each kind of argument.
#pragma once
#if defined(__has_include) && !__has_include(<curl/curl.h>)
#error "libcurl's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev libpsl-dev libsqlite3-dev libyaml-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel libpsl-devel sqlite-devel libyaml-devel"
#else

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <malloc.h>
#include <strings.h>

// Callbacks run on the network thread, whatever the isolation of the code that sets them.
#define CONVOY_SENDABLE __attribute__((swift_attr("@Sendable")))

typedef size_t (*convoy_data_callback)(char *bytes, size_t size, size_t count, void *context);
typedef int (*convoy_seek_callback)(void *context, curl_off_t offset, int origin);

static inline CURLcode convoy_easy_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode convoy_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode convoy_easy_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode convoy_easy_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode convoy_easy_set_data_callback(CURL *easy, CURLoption option, convoy_data_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, option, callback);
}
static inline CURLcode convoy_easy_set_seek_callback(CURL *easy, convoy_seek_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, callback);
}
static inline CURLcode convoy_easy_set_prerequest_callback(CURL *easy, curl_prereq_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}
static inline CURLcode convoy_easy_set_resolver_callback(CURL *easy, curl_resolver_start_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, callback);
}
static inline CURLcode convoy_easy_set_progress_callback(CURL *easy, curl_xferinfo_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, callback);
}
static inline CURLcode convoy_easy_set_trace_callback(CURL *easy, curl_debug_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, callback);
}
static inline CURLcode convoy_easy_set_handshake_callback(CURL *easy, curl_ssl_ctx_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, callback);
}
static inline CURLcode convoy_easy_set_open_socket_callback(CURL *easy, curl_opensocket_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callback);
}
static inline CURLcode convoy_easy_set_close_socket_callback(CURL *easy, curl_closesocket_callback CONVOY_SENDABLE callback) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, callback);
}
// Uses the deprecated option, as its successor parses a string each time.
static inline CURLcode convoy_easy_allow_only_http(CURL *easy) {
    return curl_easy_setopt(easy, (CURLoption)181 /* CURLOPT_PROTOCOLS */, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
}
static inline CURLcode convoy_easy_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode convoy_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode convoy_easy_get_pointer(CURL *easy, CURLINFO info, void *value) {
    return curl_easy_getinfo(easy, info, (void **)value);
}
// The socket of a transfer's connection, also of one that has ended and is still in its multi handle; or -1.
static inline curl_socket_t convoy_easy_active_socket(CURL *easy) {
    curl_socket_t socket = CURL_SOCKET_BAD;
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK ? socket : CURL_SOCKET_BAD;
}
// The `SSL` of the transfer's connection, or null.
static inline void *convoy_easy_tls(CURL *easy) {
    struct curl_tlssessioninfo *info = NULL;
    if (curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK || !info) return NULL;
    return info->backend == CURLSSLBACKEND_OPENSSL ? info->internals : NULL;
}
static inline CURLMcode convoy_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode convoy_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode convoy_multi_set_socket_callback(CURLM *multi, curl_socket_callback CONVOY_SENDABLE callback) {
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
}
static inline CURLMcode convoy_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback CONVOY_SENDABLE callback) {
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
}
// Whether the environment has any variable for a proxy. One pass, as each `getenv` looks at all variables.
static inline int convoy_environment_names_proxy(void) {
    extern char **environ;
    for (char **entry = environ; entry && *entry; entry++) {
        const char *name = *entry;
        int isHTTP = (name[0] | 0x20) == 'h' && (name[1] | 0x20) == 't';
        if (!isHTTP && ((name[0] | 0x20) != 'a' || (name[1] | 0x20) != 'l')) continue;
        if (!strncasecmp(name, "http_proxy=", 11) || !strncasecmp(name, "https_proxy=", 12)
            || !strncasecmp(name, "all_proxy=", 10)) return 1;
    }
    return 0;
}
// `CURLVERSION_NOW` is a macro that Swift does not import.
static inline const curl_version_info_data *convoy_version(void) { return curl_version_info(CURLVERSION_NOW); }
// The result is in a union, which is awkward to read from Swift.
static inline CURL *convoy_message_easy(CURLMsg *message) { return message->easy_handle; }
static inline CURLcode convoy_message_result(CURLMsg *message) { return message->data.result; }
#endif
