#if GTK
import CGTK

enum MainLoop {
    static func probe() -> UInt32 { gtk_get_major_version() }
}
#endif
