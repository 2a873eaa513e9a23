#if GTK
import CGTK
import ConvoySupport

/// The number of GLib's objects in memory, by class. GLib itself counts them only in a build for debugging.
enum ObjectCounts {
    private typealias Method = @convention(c) (UnsafeMutablePointer<GObject>?) -> Void

    private static let counts = Locked<[GType: Int]>([:])
    // Set once, before the first object exists.
    private nonisolated(unsafe) static var constructed: Method?
    private nonisolated(unsafe) static var finalize: Method?

    /// Counts objects from now on. Must be called before GTK is initialized, because each class copies the methods of its
    /// superclass, and calls them in its own.
    static func start() {
        guard let base = g_type_class_ref(g_object_get_type())?.assumingMemoryBound(to: GObjectClass.self) else { return }
        (constructed, finalize) = (base.pointee.constructed, base.pointee.finalize)
        base.pointee.constructed = { object in
            ObjectCounts.add(1, object)
            ObjectCounts.constructed?(object)
        }
        base.pointee.finalize = { object in
            ObjectCounts.add(-1, object)
            ObjectCounts.finalize?(object)
        }
    }

    private static func add(_ number: Int, _ object: UnsafeMutablePointer<GObject>?) {
        guard let type = object?.pointee.g_type_instance.g_class?.pointee.g_type else { return }
        counts.withLock { $0[type, default: 0] += number }
    }

    /// The number of objects by the names of their classes.
    static var all: [String: Int] {
        let counts = counts.withLock { $0 }.filter { $0.value != 0 }
        return Dictionary(counts.map { (String(cString: g_type_name($0.key)), $0.value) }, uniquingKeysWith: +)
    }
}
#endif
