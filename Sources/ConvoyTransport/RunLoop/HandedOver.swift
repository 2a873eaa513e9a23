/// A task for another thread, which needs no closure.
package protocol HandoverTask: AnyObject, Sendable {
    func runHandedOver()
}

/// A block or a task that one thread leaves for another.
enum HandedOver: Sendable {
    case block(@Sendable () -> Void)
    case task(any HandoverTask)

    func run() {
        switch self {
        case .block(let block): block()
        case .task(let task): task.runHandedOver()
        }
    }
}
