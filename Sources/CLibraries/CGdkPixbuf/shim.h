// GObject's casts and signals are macros over untyped functions: here are typed inline functions for those in use.
#pragma once
#if defined(__has_include) && !__has_include(<gdk-pixbuf/gdk-pixbuf.h>)
#error "gdk-pixbuf's headers are missing; the package trait Images needs them. Debian/Ubuntu: sudo apt-get install libgdk-pixbuf-2.0-dev   Fedora: sudo dnf install gdk-pixbuf2-devel"
#else
#include <gdk-pixbuf/gdk-pixbuf.h>

// Callbacks run on the thread that feeds the loader, whatever the isolation of the code that sets them.
#define CONVOY_SENDABLE __attribute__((swift_attr("@Sendable")))

typedef void (*convoy_size_callback)(GdkPixbufLoader *loader, int width, int height, void *context);
typedef void (*convoy_prepared_callback)(GdkPixbufLoader *loader, void *context);
typedef void (*convoy_area_callback)(GdkPixbufLoader *loader, int x, int y, int width, int height, void *context);

static inline void convoy_loader_on_size(GdkPixbufLoader *loader, convoy_size_callback CONVOY_SENDABLE callback, void *context) {
    g_signal_connect_data(loader, "size-prepared", G_CALLBACK(callback), context, NULL, (GConnectFlags)0);
}
static inline void convoy_loader_on_prepared(GdkPixbufLoader *loader, convoy_prepared_callback CONVOY_SENDABLE callback, void *context) {
    g_signal_connect_data(loader, "area-prepared", G_CALLBACK(callback), context, NULL, (GConnectFlags)0);
}
static inline void convoy_loader_on_area(GdkPixbufLoader *loader, convoy_area_callback CONVOY_SENDABLE callback, void *context) {
    g_signal_connect_data(loader, "area-updated", G_CALLBACK(callback), context, NULL, (GConnectFlags)0);
}
static inline void convoy_loader_unref(GdkPixbufLoader *loader) { g_object_unref(loader); }
static inline GdkPixbuf *convoy_pixbuf_ref(GdkPixbuf *pixbuf) { return (GdkPixbuf *)g_object_ref(pixbuf); }
static inline void convoy_pixbuf_unref(GdkPixbuf *pixbuf) { g_object_unref(pixbuf); }
// Whether nobody else has a reference to the pixels, so that they may be written to.
static inline int convoy_pixbuf_is_unshared(GdkPixbuf *pixbuf) { return G_OBJECT(pixbuf)->ref_count == 1; }
// An animation's frames, one after another. Its time is microseconds from the start, as gdk-pixbuf has only a deprecated type
// for it.
G_GNUC_BEGIN_IGNORE_DEPRECATIONS
static inline GdkPixbufAnimationIter *convoy_animation_start(GdkPixbufAnimation *animation) {
    GTimeVal time = {1, 0};
    return gdk_pixbuf_animation_get_iter(animation, &time);
}
static inline int convoy_animation_advance(GdkPixbufAnimationIter *frames, long long microseconds) {
    GTimeVal time = {1 + microseconds / 1000000, microseconds % 1000000};
    return gdk_pixbuf_animation_iter_advance(frames, &time);
}
G_GNUC_END_IGNORE_DEPRECATIONS
static inline void convoy_animation_end(GdkPixbufAnimationIter *frames) { g_object_unref(frames); }
// `gdk_pixbuf_save_to_bufferv` with options as keys and values. The tests make their images with it.
static inline int convoy_pixbuf_save(GdkPixbuf *pixbuf, char **bytes, size_t *count, const char *type, char **keys, char **values) {
    gsize size = 0;
    int done = gdk_pixbuf_save_to_bufferv(pixbuf, bytes, &size, type, keys, values, NULL);
    *count = size;
    return done;
}
#endif
