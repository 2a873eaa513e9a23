import Foundation

/// Delays a streamed body by `delay` seconds after each packet of `packetSize` bytes.
package struct UploadThrottle: Sendable, Hashable {
    package var packetSize: Int
    package var delay: TimeInterval

    package init(packetSize: Int, delay: TimeInterval) {
        self.packetSize = packetSize
        self.delay = delay
    }
}
