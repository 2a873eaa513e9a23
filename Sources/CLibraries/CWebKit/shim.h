#pragma once
#if defined(__has_include) && !__has_include(<webkit/webkit.h>)
#error "WebKitGTK's headers are missing; the package trait WebKit needs them. Debian/Ubuntu: sudo apt-get install libwebkitgtk-6.0-dev   Fedora: sudo dnf install webkitgtk6.0-devel"
#else
#define GDK_DISABLE_DEPRECATION_WARNINGS 1
#define GLIB_DISABLE_DEPRECATION_WARNINGS 1
#include <webkit/webkit.h>
#endif
