// Thumbnails by libsoup and gdk-pixbuf, for images.py.
//
//   images make DIR COUNT WIDTH HEIGHT    writes COUNT different JPEGs
//   images scale URL COUNT SIZE JOBS      decodes each at the size that is needed, on a pool of threads
//   images full URL COUNT SIZE JOBS       decodes each whole, then scales it
//   images eager URL COUNT SIZE JOBS      as scale, but with all requests in libsoup's queue at once
#include <gdk-pixbuf/gdk-pixbuf.h>
#include <libsoup/soup.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static GMainLoop *loop;
static SoupSession *session;
static GThreadPool *pool;
static const char *base;
static int count, side, started, done, failed;
static gboolean whole;

static void start_next(void);

static gboolean did_end(gpointer is_good) {
    if (!is_good) failed++;
    if (++done == count) g_main_loop_quit(loop);
    else start_next();
    return G_SOURCE_REMOVE;
}

static void decode(gpointer data, gpointer unused) {
    GBytes *bytes = data;
    GInputStream *stream = g_memory_input_stream_new_from_bytes(bytes);
    GdkPixbuf *thumbnail = NULL;
    if (whole) {
        GdkPixbuf *image = gdk_pixbuf_new_from_stream(stream, NULL, NULL);
        if (image) {
            double width = gdk_pixbuf_get_width(image), height = gdk_pixbuf_get_height(image);
            double scale = MIN(side / width, side / height);
            thumbnail = gdk_pixbuf_scale_simple(image, MAX(1, width * scale), MAX(1, height * scale), GDK_INTERP_BILINEAR);
            g_object_unref(image);
        }
    } else {
        thumbnail = gdk_pixbuf_new_from_stream_at_scale(stream, side, side, TRUE, NULL, NULL);
    }
    gboolean is_good = thumbnail != NULL;
    g_clear_object(&thumbnail);
    g_object_unref(stream);
    g_bytes_unref(bytes);
    g_idle_add(did_end, GINT_TO_POINTER(is_good));
}

static void did_receive(GObject *source, GAsyncResult *result, gpointer message) {
    GBytes *bytes = soup_session_send_and_read_finish(session, result, NULL);
    gboolean is_good = bytes && soup_message_get_status(message) == SOUP_STATUS_OK;
    g_object_unref(message);
    if (is_good) g_thread_pool_push(pool, bytes, NULL);
    else {
        if (bytes) g_bytes_unref(bytes);
        did_end(NULL);
    }
}

static void start_next(void) {
    if (started == count) return;
    char *address = g_strdup_printf("%s/%d.jpg", base, started++);
    SoupMessage *message = soup_message_new("GET", address);
    g_free(address);
    soup_session_send_and_read_async(session, message, G_PRIORITY_DEFAULT, NULL, did_receive, message);
}

// Smooth colours with some noise, as in a photograph.
static int make(const char *directory, int count, int width, int height) {
    for (int number = 0; number < count; number++) {
        GdkPixbuf *image = gdk_pixbuf_new(GDK_COLORSPACE_RGB, FALSE, 8, width, height);
        unsigned state = 12345 + number;
        for (int y = 0; y < height; y++) {
            guchar *row = gdk_pixbuf_get_pixels(image) + (gsize)y * gdk_pixbuf_get_rowstride(image);
            for (int x = 0; x < width; x++) {
                state = state * 1664525 + 1013904223;
                int noise = (int)(state >> 28);
                row[x * 3] = (x * 200 / width + noise + number * 11) & 255;
                row[x * 3 + 1] = (y * 200 / height + noise + number * 7) & 255;
                row[x * 3 + 2] = ((x + y) / 16 % 128 + noise + number * 5) & 255;
            }
        }
        char *path = g_strdup_printf("%s/%d.jpg", directory, number);
        if (!gdk_pixbuf_save(image, path, "jpeg", NULL, "quality", "85", NULL)) return 1;
        g_free(path);
        g_object_unref(image);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    if (!strcmp(argv[1], "make")) return make(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
    whole = !strcmp(argv[1], "full");
    base = argv[2];
    count = atoi(argv[3]);
    side = atoi(argv[4]);
    int jobs = atoi(argv[5]);
    loop = g_main_loop_new(NULL, FALSE);
    session = soup_session_new_with_options("max-conns", jobs, "max-conns-per-host", jobs, NULL);
    pool = g_thread_pool_new(decode, NULL, g_get_num_processors(), FALSE, NULL);
    int first = !strcmp(argv[1], "eager") ? count : MIN(jobs, count);
    for (int number = 0; number < first; number++) start_next();
    g_main_loop_run(loop);
    g_thread_pool_free(pool, FALSE, TRUE);
    g_object_unref(session);
    return failed ? 1 : 0;
}
