// libjpeg reports errors by a jump, which must not leave a Swift function: here is one function that decodes an image.
#pragma once
#if defined(__has_include) && !__has_include(<jpeglib.h>)
#error "libjpeg's headers are missing; the package trait Images needs them. Debian/Ubuntu: sudo apt-get install libjpeg-dev   Fedora: sudo dnf install libjpeg-turbo-devel"
#else
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>

// The image that is being decoded. libjpeg gets the first members as its own structures.
struct convoy_jpeg {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failure;
    int (*is_cancelled)(void *context);
    void *context;
};

static void convoy_jpeg_fail(j_common_ptr jpeg) { longjmp(((struct convoy_jpeg *)jpeg->client_data)->failure, 1); }
static void convoy_jpeg_ignore(j_common_ptr jpeg) { (void)jpeg; }
static void convoy_jpeg_check(j_common_ptr jpeg) {
    struct convoy_jpeg *image = (struct convoy_jpeg *)jpeg->client_data;
    if (image->is_cancelled(image->context)) longjmp(image->failure, 1);
}

// Decodes a JPEG of four components at a fraction of its size. `use_row` gets each row: cyan, magenta, yellow and black of
// each pixel. Returns whether the image has all rows, and this size.
static inline int convoy_jpeg_decode_cmyk(
    const unsigned char *body, size_t count, unsigned divisor, unsigned width, unsigned height,
    int (*is_cancelled)(void *context), void (*use_row)(void *context, const unsigned char *row), void *context) {
    struct jpeg_decompress_struct jpeg;
    struct convoy_jpeg image;
    JSAMPROW row = (JSAMPROW)malloc((size_t)width * 4);
    if (row == NULL) return 0;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&image.errors);
    image.errors.error_exit = convoy_jpeg_fail;
    image.errors.output_message = convoy_jpeg_ignore;
    image.progress.progress_monitor = convoy_jpeg_check;
    image.is_cancelled = is_cancelled;
    image.context = context;
    jpeg.client_data = &image;
    if (setjmp(image.failure)) {
        jpeg_destroy_decompress(&jpeg);
        free(row);
        return 0;
    }
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &image.progress;
    jpeg_mem_src(&jpeg, (unsigned char *)body, count);
    jpeg_read_header(&jpeg, TRUE);
    if (jpeg.num_components != 4) convoy_jpeg_fail((j_common_ptr)&jpeg);
    jpeg.out_color_space = JCS_CMYK;
    jpeg.scale_num = 1;
    jpeg.scale_denom = divisor;
    jpeg_start_decompress(&jpeg);
    if (jpeg.output_width != width || jpeg.output_height != height || jpeg.output_components != 4) {
        convoy_jpeg_fail((j_common_ptr)&jpeg);
    }
    while (jpeg.output_scanline < height) {
        if (jpeg_read_scanlines(&jpeg, &row, 1) != 1) convoy_jpeg_fail((j_common_ptr)&jpeg);
        use_row(context, row);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    free(row);
    return 1;
}
#endif
