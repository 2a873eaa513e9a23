#if WebKit
import CGTK
import CWebKit

enum WebView {
    static func probe() -> UInt32 { webkit_get_major_version() }
}
#endif
