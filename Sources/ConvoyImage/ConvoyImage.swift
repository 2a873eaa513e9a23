// ConvoyImage holds `ImageResponseSerializer`, which decodes the body of a response with gdk-pixbuf.
//
// It is empty unless the package is used with its trait `Images`, so that Convoy itself can be built and linked where
// gdk-pixbuf is not installed.
#if Images
@_exported import ConvoySerialization
#endif
