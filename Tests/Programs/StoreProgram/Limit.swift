import Foundation

/// A limit on a resource of this process.
struct Limit {
    private let resource: __rlimit_resource_t
    private let before: rlimit

    init(_ resource: __rlimit_resource) {
        self.resource = __rlimit_resource_t(resource.rawValue)
        var limit = rlimit()
        getrlimit(self.resource, &limit)
        before = limit
    }

    func set(_ value: rlim_t) {
        var limit = rlimit(rlim_cur: value, rlim_max: before.rlim_max)
        setrlimit(resource, &limit)
    }

    func restore() { set(before.rlim_cur) }
}
