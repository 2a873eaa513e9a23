// ConvoyImage holds `ImageResponseSerializer`, which decodes the body of a response with gdk-pixbuf.
//
// The module is empty without the package trait `Images`, so that Convoy itself can be built and linked without
// gdk-pixbuf.
#if Images
@_exported import ConvoySerialization
#endif
