// Pixel formats are macros of expressions: here are functions for those in use.
#pragma once
#if defined(__has_include) && !__has_include(<lcms2.h>)
#error "Little CMS's headers are missing; the package trait Images needs them. Debian/Ubuntu: sudo apt-get install liblcms2-dev   Fedora: sudo dnf install lcms2-devel"
#else
#include <lcms2.h>

// Eight bits per sample: the channels of a color space, then bytes that a transform neither reads nor writes.
static inline cmsUInt32Number convoy_color_format(int is_gray, int extra) {
    return (is_gray ? COLORSPACE_SH(PT_GRAY) | CHANNELS_SH(1) : COLORSPACE_SH(PT_RGB) | CHANNELS_SH(3)) | EXTRA_SH(extra) | BYTES_SH(1);
}
// Cyan, magenta, yellow and black, in which 255 is full ink, or no ink.
static inline cmsUInt32Number convoy_ink_format(int is_inverted) {
    return COLORSPACE_SH(PT_CMYK) | CHANNELS_SH(4) | BYTES_SH(1) | FLAVOR_SH(is_inverted);
}
#endif
