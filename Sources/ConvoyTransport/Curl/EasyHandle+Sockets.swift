import CCurl
import ConvoySecurity
import Foundation

/// Whom a handle connects to.
extension EasyHandle {
    /// Makes libcurl ask here for each socket. Connections of several handles share the table that has the sockets.
    func setSocketOptions() {
        convoy_easy_set_pointer(easy, CURLOPT_OPENSOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        convoy_easy_set_open_socket_callback(easy) { context, _, address in
            guard let address, let handle = EasyHandle.from(context) else { return CURL_SOCKET_BAD }
            handle.clock?.noteSocket()
            return handle.open(address)
        }
    }

    /// Opens a socket for an address, if it may be connected to.
    private func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        // The structure goes on where the address is longer than a `sockaddr`.
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0
        let own = UnsafeRawPointer(address).advanced(by: offset).assumingMemoryBound(to: sockaddr.self)
        if let refusal = refusal(of: IPAddress(own)) {
            if addresses.firstRefusal == nil { addresses.firstRefusal = refusal }
            sockets.stalled.append(self)
            return CURL_SOCKET_BAD
        }
        let descriptor = sockets.open(address.pointee)
        if descriptor >= 0, let source = applied.route?.source {
            let code = source.bind(descriptor, family: address.pointee.family)
            guard code == 0 else {
                addresses.bindError = code
                sockets.closeSocket(descriptor)
                sockets.stalled.append(self)
                return CURL_SOCKET_BAD
            }
        }
        if descriptor >= 0 { applied.route?.serviceType.mark(descriptor, family: address.pointee.family) }
        addresses.openedCount += 1
        return descriptor
    }

    /// - Parameter address: nil for one of a family that the guard does not know, which it does not let through.
    private func refusal(of address: IPAddress?) -> AddressRefusal? {
        guard let route = applied.route, let addressGuard = route.addressGuard, route.unixSocket == nil else { return nil }
        let isProxy = route.proxy != nil
        guard let address else { return AddressRefusal(address: .unspecified, network: nil, isProxy: isProxy) }
        return addressGuard.refusal(of: address, isProxy: isProxy)
    }

    /// Whether the request may be sent on a connection that is there. It may have been made without the guard, or with
    /// another one.
    func mayUseConnection(to text: UnsafePointer<CChar>?) -> Bool {
        guard applied.route?.addressGuard != nil,
            let refusal = refusal(of: text.flatMap { IPAddress(String(cString: $0)) })
        else { return true }
        addresses.refusalOfConnection = refusal
        return false
    }
}
