#include "limit.h"
#include "loop.h"

#include <stdlib.h>
#include <string.h>

// The state of one transfer, with its body in memory, as a user would have it.
typedef struct {
    CURL *easy;
    CURLU *origin;
    struct curl_slist *fields;
    long received;
    char body[64];
} slot;

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
    slot *s = context;
    size_t length = size * count;
    if (s->received + length <= sizeof s->body) memcpy(s->body + s->received, bytes, length);
    s->received += length;
    return length;
}

static struct curl_slist *field_list(const char *lines) {
    struct curl_slist *list = 0;
    const char *end;
    for (; lines && (end = strchr(lines, '\n')); lines = end + 1) {
        char *line = strndup(lines, end - lines);
        if (!line) break;
        list = curl_slist_append(list, line);
        free(line);
    }
    return list;
}

// Passes the origin already parsed, and the rest of the URL as the request target. Returns 0, or -1.
static int set_origin(CURL *easy, const char *url, slot *s) {
    const char *path = strstr(url, "://");
    path = path ? strchr(path + 3, '/') : 0;
    s->origin = curl_url();
    if (!path || !s->origin) return -1;
    return curl_url_set(s->origin, CURLUPART_URL, url, 0) || curl_url_set(s->origin, CURLUPART_PATH, "/", 0)
        || curl_easy_setopt(easy, CURLOPT_CURLU, s->origin) || curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, path) ? -1 : 0;
}

static CURL *make_handle(const limit_plan *plan, slot *s) {
    CURL *easy = curl_easy_init();
    if (!easy) return 0;
    curl_easy_setopt(easy, CURLOPT_URL, plan->url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, s);
    s->fields = field_list(plan->fields);
    if (s->fields) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, s->fields);
    if (plan->authority) curl_easy_setopt(easy, CURLOPT_CAINFO, plan->authority);
    if (plan->http2) {
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
        // Wait for the existing connection instead of opening another one.
        curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    } else if (plan->authority) {
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        // Every handshake is complete, as in a client that checks every certificate.
        curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    }
    return easy;
}

static void clean_up(slot *s) {
    curl_easy_cleanup(s->easy);
    curl_url_cleanup(s->origin);
    curl_slist_free_all(s->fields);
}

// Returns whether a finished transfer has the expected result.
static int is_right(const limit_plan *plan, CURL *easy, const slot *s, CURLcode code) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_OK && status == 200 && s->received == plan->expected_bytes;
}

// Makes `count` requests on the slots, and returns the number of failed ones.
static long make_requests(limit_loop *loop, const limit_plan *plan, slot *slots, long count) {
    long started = 0, finished = 0, failed = 0;
    for (int i = 0; i < plan->in_flight && started < count; i++, started++) {
        slots[i].received = 0;
        curl_multi_add_handle(loop->multi, slots[i].easy);
    }
    while (finished < count) {
        limit_loop_turn(loop);
        CURLMsg *message;
        int left;
        while ((message = curl_multi_info_read(loop->multi, &left))) {
            if (message->msg != CURLMSG_DONE) continue;
            CURL *easy = message->easy_handle;
            slot *s;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &s);
            failed += !is_right(plan, easy, s, message->data.result);
            finished++;
            curl_multi_remove_handle(loop->multi, easy);
            if (started < count) {
                started++;
                s->received = 0;
                curl_multi_add_handle(loop->multi, easy);
            }
        }
    }
    return failed;
}

int limit_requests(const limit_plan *plan, limit_result *result) {
    curl_global_init(CURL_GLOBAL_ALL);
    limit_loop loop;
    if (limit_loop_open(&loop)) return -1;
    slot *slots = calloc(plan->in_flight, sizeof *slots);
    for (int i = 0; i < plan->in_flight; i++) {
        slots[i].easy = make_handle(plan, &slots[i]);
        if (!slots[i].easy) return -1;
        if (!plan->tuned) continue;
        if (limit_loop_keep_sockets(&loop, slots[i].easy) || set_origin(slots[i].easy, plan->url, &slots[i])) return -1;
    }
    long failed = make_requests(&loop, plan, slots, plan->warm_up);
    double cpu = limit_cpu_seconds();
    uint64_t start = limit_nanoseconds();
    failed += make_requests(&loop, plan, slots, plan->requests);
    result->seconds = (limit_nanoseconds() - start) / 1e9;
    result->cpu_seconds = limit_cpu_seconds() - cpu;
    result->failed = failed;
    for (int i = 0; i < plan->in_flight; i++) clean_up(&slots[i]);
    free(slots);
    limit_loop_close(&loop);
    return 0;
}

int limit_transfers(const limit_plan *plan, limit_result *result) {
    curl_global_init(CURL_GLOBAL_ALL);
    limit_loop loop;
    if (limit_loop_open(&loop)) return -1;
    // Warm up with one handle per transfer. Memory that grows from here on is the cost of the transfers.
    slot warm = {0};
    limit_plan one = *plan;
    one.in_flight = 1;
    warm.easy = make_handle(plan, &warm);
    if (!warm.easy) return -1;
    long failed = make_requests(&loop, &one, &warm, 1);
    limit_reset_peak();
    long before = limit_memory("VmRSS");
    double cpu = limit_cpu_seconds();
    uint64_t start = limit_nanoseconds();
    slot *slots = calloc(plan->requests, sizeof *slots);
    for (long i = 0; i < plan->requests; i++) {
        slots[i].easy = make_handle(plan, &slots[i]);
        if (!slots[i].easy) return -1;
    }
    limit_plan all = *plan;
    all.in_flight = (int)plan->requests;
    failed += make_requests(&loop, &all, slots, plan->requests);
    result->seconds = (limit_nanoseconds() - start) / 1e9;
    result->cpu_seconds = limit_cpu_seconds() - cpu;
    result->failed = failed;
    result->grown_kilobytes = limit_memory("VmHWM") - before;
    for (long i = 0; i < plan->requests; i++) clean_up(&slots[i]);
    clean_up(&warm);
    free(slots);
    limit_loop_close(&loop);
    return 0;
}
