#pragma once
#if defined(__has_include) && !__has_include(<gtk/gtk.h>)
#error "GTK 4's headers are missing; the package trait GTK needs them. Debian/Ubuntu: sudo apt-get install libgtk-4-dev   Fedora: sudo dnf install gtk4-devel"
#else
#include <gtk/gtk.h>
#include <glib-unix.h>
#endif
