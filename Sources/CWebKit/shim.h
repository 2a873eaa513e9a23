#pragma once
#if defined(__has_include) && !__has_include(<webkit/webkit.h>)
#error "WebKitGTK's headers are missing; the package trait WebKit needs them. Debian/Ubuntu: sudo apt-get install libwebkitgtk-6.0-dev   Fedora: sudo dnf install webkitgtk6.0-devel"
#else
#include <webkit/webkit.h>
#endif
