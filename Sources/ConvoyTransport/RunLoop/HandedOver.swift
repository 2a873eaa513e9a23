/// Something that is done on another thread, for which no closure need be made.
package protocol HandoverTask: AnyObject, Sendable {
    func runHandedOver()
}

/// What one thread leaves for another.
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
