import Foundation

/// Holds up a body from a stream for so many seconds after each packet of so many bytes.
package struct UploadThrottle: Sendable, Hashable {
    package var packetSize: Int
    package var delay: TimeInterval

    package init(packetSize: Int, delay: TimeInterval) {
        self.packetSize = packetSize
        self.delay = delay
    }
}
