// GObject's casts and signals are macros over untyped functions, and some of GTK's functions take any number of arguments:
// here are typed inline functions for those in use.
#pragma once
#if defined(__has_include) && !__has_include(<gtk/gtk.h>)
#error "GTK 4's headers are missing; the package trait GTK needs them. Debian/Ubuntu: sudo apt-get install libgtk-4-dev   Fedora: sudo dnf install gtk4-devel"
#else
// What GTK 4.8 has is used with later versions too, which call some of it deprecated.
#define GDK_DISABLE_DEPRECATION_WARNINGS 1
#define GLIB_DISABLE_DEPRECATION_WARNINGS 1
#include <gtk/gtk.h>
#include <glib-unix.h>

// Callbacks are checked by their code, not by the isolation of the code that sets them.
#define CONVOY_SENDABLE __attribute__((swift_attr("@Sendable")))

// libdispatch's main queue for the run loop of Core Foundation, or for another one.
extern int _dispatch_get_main_queue_handle_4CF(void);
extern void _dispatch_main_queue_callback_4CF(void *message);

typedef gboolean (*convoy_source_callback)(void *context);
typedef void (*convoy_release_callback)(void *context);
// The first argument of the signal, or the instance of a signal without arguments. What it returns counts if the signal
// returns something.
typedef gboolean (*convoy_signal_callback)(void *context, void *argument);
typedef gboolean (*convoy_tick_callback)(GtkWidget *widget, GdkFrameClock *clock, void *context);

static inline unsigned convoy_watch(int descriptor, int priority, gboolean (*CONVOY_SENDABLE callback)(int, GIOCondition, void *)) {
    return g_unix_fd_add_full(priority, descriptor, G_IO_IN, callback, NULL, NULL);
}
static inline unsigned convoy_idle(int priority, convoy_source_callback CONVOY_SENDABLE callback, void *context) {
    return g_idle_add_full(priority, callback, context, NULL);
}
static inline unsigned convoy_timeout(unsigned milliseconds, convoy_source_callback CONVOY_SENDABLE callback, void *context, convoy_release_callback CONVOY_SENDABLE release) {
    return g_timeout_add_full(G_PRIORITY_DEFAULT, milliseconds, callback, context, release);
}
// GDK_PRIORITY_REDRAW, a macro of an expression.
static inline int convoy_redraw_priority(void) { return GDK_PRIORITY_REDRAW; }

static inline unsigned long convoy_connect(void *instance, const char *signal, convoy_signal_callback CONVOY_SENDABLE callback, void *context, convoy_release_callback CONVOY_SENDABLE release) {
    return g_signal_connect_data(instance, signal, G_CALLBACK(callback), context, (GClosureNotify)(void (*)(void))release, G_CONNECT_SWAPPED);
}
// Runs the callback after all others.
static inline unsigned long convoy_connect_after(void *instance, const char *signal, convoy_signal_callback CONVOY_SENDABLE callback, void *context, convoy_release_callback CONVOY_SENDABLE release) {
    return g_signal_connect_data(instance, signal, G_CALLBACK(callback), context, (GClosureNotify)(void (*)(void))release, (GConnectFlags)(G_CONNECT_SWAPPED | G_CONNECT_AFTER));
}
static inline void convoy_disconnect(void *instance, unsigned long handler) {
    if (handler != 0 && g_signal_handler_is_connected(instance, handler)) g_signal_handler_disconnect(instance, handler);
}
static inline unsigned convoy_add_tick(GtkWidget *widget, convoy_tick_callback CONVOY_SENDABLE callback, void *context, convoy_release_callback CONVOY_SENDABLE release) {
    return gtk_widget_add_tick_callback(widget, callback, context, release);
}
static inline void convoy_set_data(void *object, const char *key, void *data, convoy_release_callback CONVOY_SENDABLE release) {
    g_object_set_data_full(G_OBJECT(object), key, data, release);
}
static inline void *convoy_get_data(void *object, const char *key) { return g_object_get_data(G_OBJECT(object), key); }
static inline void *convoy_ref(void *object) { return g_object_ref(object); }
static inline void *convoy_ref_sink(void *object) { return g_object_ref_sink(object); }
static inline void convoy_unref(void *object) { g_object_unref(object); }
static inline int convoy_is_a(void *instance, GType type) { return G_TYPE_CHECK_INSTANCE_TYPE(instance, type); }
static inline const char *convoy_type_name(void *instance) { return G_OBJECT_TYPE_NAME(instance); }

static inline GBytes *convoy_bytes(const void *bytes, size_t count, convoy_release_callback CONVOY_SENDABLE release, void *context) {
    return g_bytes_new_with_free_func(bytes, count, release, context);
}

static inline void convoy_set_busy(GtkWidget *widget, int is_busy) {
    gtk_accessible_update_state(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_STATE_BUSY, is_busy ? TRUE : FALSE, -1);
}
static inline void convoy_set_invalid(GtkWidget *widget, int is_invalid) {
    gtk_accessible_update_state(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_STATE_INVALID, is_invalid ? GTK_ACCESSIBLE_INVALID_TRUE : GTK_ACCESSIBLE_INVALID_FALSE, -1);
}
static inline void convoy_set_label(GtkWidget *widget, const char *text) {
    gtk_accessible_update_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_LABEL, text, -1);
}
static inline void convoy_set_description(GtkWidget *widget, const char *text) {
    gtk_accessible_update_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text, -1);
}
static inline void convoy_set_value_text(GtkWidget *widget, const char *text) {
    gtk_accessible_update_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_VALUE_TEXT, text, -1);
}
static inline void convoy_reset_value_text(GtkWidget *widget) {
    gtk_accessible_reset_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_VALUE_TEXT);
}
// Whether a property of a widget has a text, for tests.
static inline int convoy_test_has_text(GtkWidget *widget, GtkAccessibleProperty property, const char *text) {
    char *difference = gtk_test_accessible_check_property(GTK_ACCESSIBLE(widget), property, text);
    int is_equal = difference == NULL;
    g_free(difference);
    return is_equal;
}
// The texts are no formats.
static inline GtkWidget *convoy_alert(GtkWindow *parent, const char *title, const char *text, const char *button) {
    GtkWidget *dialog = gtk_message_dialog_new(parent, (GtkDialogFlags)(GTK_DIALOG_MODAL | GTK_DIALOG_DESTROY_WITH_PARENT), GTK_MESSAGE_ERROR, GTK_BUTTONS_NONE, "%s", title);
    if (text != NULL) gtk_message_dialog_format_secondary_text(GTK_MESSAGE_DIALOG(dialog), "%s", text);
    gtk_dialog_add_button(GTK_DIALOG(dialog), button, GTK_RESPONSE_CLOSE);
    gtk_dialog_set_default_response(GTK_DIALOG(dialog), GTK_RESPONSE_CLOSE);
    return dialog;
}
static inline int convoy_settings_flag(const char *name) {
    GtkSettings *settings = gtk_settings_get_default();
    gboolean value = FALSE;
    if (settings != NULL) g_object_get(settings, name, &value, NULL);
    return value;
}
static inline void convoy_set_settings_flag(const char *name, int value) {
    GtkSettings *settings = gtk_settings_get_default();
    if (settings != NULL) g_object_set(settings, name, value ? TRUE : FALSE, NULL);
}

// A named icon in the centre of an area of any size. The icon, its size and its colour are looked up at each drawing, so that
// they follow the style, the theme and the size of the widget. The widget is not retained.
typedef struct {
    GObject parent;
    GWeakRef widget;
    char *name;
    int width, height;
} ConvoyIcon;

static inline void convoy_icon_snapshot(GdkPaintable *paintable, GdkSnapshot *snapshot, double width, double height) {
    ConvoyIcon *icon = (ConvoyIcon *)paintable;
    GtkWidget *widget = (GtkWidget *)g_weak_ref_get(&icon->widget);
    if (widget == NULL) return;
    double shorter = MIN(width, height);
    int length = (int)CLAMP(shorter / 3, 16, 64);
    GtkIconPaintable *image = gtk_icon_theme_lookup_icon(
        gtk_icon_theme_get_for_display(gtk_widget_get_display(widget)), icon->name, NULL, length,
        gtk_widget_get_scale_factor(widget), gtk_widget_get_direction(widget), (GtkIconLookupFlags)0);
    GdkRGBA color;
    gtk_style_context_get_color(gtk_widget_get_style_context(widget), &color);
    // A dim icon is not mistaken for content.
    color.alpha *= 0.4f;
    if (image != NULL) {
        graphene_point_t corner = GRAPHENE_POINT_INIT((float)((width - length) / 2), (float)((height - length) / 2));
        gtk_snapshot_save(snapshot);
        gtk_snapshot_translate(snapshot, &corner);
        gtk_symbolic_paintable_snapshot_symbolic(GTK_SYMBOLIC_PAINTABLE(image), snapshot, length, length, &color, 1);
        gtk_snapshot_restore(snapshot);
        g_object_unref(image);
    }
    g_object_unref(widget);
}
static inline int convoy_icon_width(GdkPaintable *paintable) { return ((ConvoyIcon *)paintable)->width; }
static inline int convoy_icon_height(GdkPaintable *paintable) { return ((ConvoyIcon *)paintable)->height; }
// Without a ratio, a picture gives the icon its entire area.
static inline double convoy_icon_ratio(GdkPaintable *paintable) { return 0; }
static inline GdkPaintableFlags convoy_icon_flags(GdkPaintable *paintable) { return GDK_PAINTABLE_STATIC_SIZE; }
static inline void convoy_icon_init_paintable(void *interface, void *data) {
    GdkPaintableInterface *paintable = (GdkPaintableInterface *)interface;
    paintable->snapshot = convoy_icon_snapshot;
    paintable->get_intrinsic_width = convoy_icon_width;
    paintable->get_intrinsic_height = convoy_icon_height;
    paintable->get_intrinsic_aspect_ratio = convoy_icon_ratio;
    paintable->get_flags = convoy_icon_flags;
}
static inline void convoy_icon_finalize(GObject *object) {
    ConvoyIcon *icon = (ConvoyIcon *)object;
    g_weak_ref_clear(&icon->widget);
    g_free(icon->name);
    ((GObjectClass *)g_type_class_peek(G_TYPE_OBJECT))->finalize(object);
}
static inline void convoy_icon_init_class(void *type, void *data) { ((GObjectClass *)type)->finalize = convoy_icon_finalize; }
// Returns a new icon. The width and the height are those that it requests.
static inline void *convoy_icon(GtkWidget *widget, const char *name, int width, int height) {
    GType type = g_type_from_name("ConvoyIcon");
    if (type == 0) {
        const GInterfaceInfo paintable = {convoy_icon_init_paintable, NULL, NULL};
        type = g_type_register_static_simple(
            G_TYPE_OBJECT, "ConvoyIcon", sizeof(GObjectClass), convoy_icon_init_class, sizeof(ConvoyIcon), NULL, (GTypeFlags)0);
        g_type_add_interface_static(type, GDK_TYPE_PAINTABLE, &paintable);
    }
    ConvoyIcon *icon = (ConvoyIcon *)g_object_new(type, NULL);
    g_weak_ref_init(&icon->widget, widget);
    icon->name = g_strdup(name);
    icon->width = width;
    icon->height = height;
    g_signal_connect_object(
        gtk_icon_theme_get_for_display(gtk_widget_get_display(widget)), "changed", G_CALLBACK(gdk_paintable_invalidate_contents),
        icon, G_CONNECT_SWAPPED);
    return icon;
}
#endif
