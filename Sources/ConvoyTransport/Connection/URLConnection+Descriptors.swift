import CCurl
import Foundation
import FoundationNetworking

/// Waiting for a file descriptor.
extension URLConnection: DescriptorWaiter {
    /// Whether the transfer failed for lack of a descriptor, before anything of it was sent.
    func lacksDescriptor(_ handle: EasyHandle) -> Bool {
        guard let multi = thread.multi, !exchange.head.hasBegun, handle.long(CURLINFO_REQUEST_SIZE) == 0 else {
            return false
        }
        return multi.descriptorShortages != exchange.earlierShortages || DescriptorQueue.isSystemShort
    }

    /// Lets the transfer wait until another one has ended.
    func waitForDescriptor() {
        guard let multi = thread.multi else { return }
        if exchange.waitsSince == 0 { exchange.waitsSince = multi.runLoop.turnTime }
        guard multi.descriptorQueue.mayWait(since: exchange.waitsSince) else {
            return fail(failure(.cannotLoadFromNetwork, "The system has no file descriptor left for a connection."))
        }
        phase = .waitingForDescriptor
        forgetTransaction()
        exchange.body?.stop()
        exchange.body = nil
        if let handle { multi.giveBack(handle) }
        handle = nil
        multi.descriptorQueue.append(self)
    }

    func tryAgainForDescriptor() {
        guard case .waitingForDescriptor = phase else { return }
        load(Exchange(again: exchange))
    }
}
