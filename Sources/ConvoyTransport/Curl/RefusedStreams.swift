import CCurl
import ConvoySupport
import Foundation
import Synchronization

/// The detection, through nghttp2, of HTTP/2 requests that a server has not processed (RFC 9113, sections 6.8 and 8.7):
/// those whose stream was closed with REFUSED_STREAM, either by the server or because it is above the last stream of a
/// GOAWAY, and those whose stream was reset with HTTP_1_1_REQUIRED.
///
/// libcurl treats both like a lost connection. Its errors do not distinguish them from requests that the server may
/// have processed and that must not be sent again. The function below therefore has the same name as a function of
/// nghttp2: the dynamic linker binds libcurl's call to it, and it calls the function of nghttp2 with a callback that
/// first inspects the reason.
///
/// If libcurl's call is not bound to it, for example in a library loaded with `dlopen`, the information is missing.
/// Requests that are not idempotent then fail instead of being sent again.
package enum RefusedStreams {
    /// The type of nghttp2's `nghttp2_on_stream_close_callback`.
    package typealias Callback = @convention(c) (OpaquePointer?, Int32, UInt32, UnsafeMutableRawPointer?) -> Int32
    fileprivate typealias Setter = @convention(c) (OpaquePointer?, Callback?) -> Void
    private typealias UserData = @convention(c) (OpaquePointer?, Int32) -> UnsafeMutableRawPointer?

    /// The reason why a request was not processed, as an HTTP/2 error code.
    enum Reason: UInt32 {
        case refused = 0x7
        /// The server requires HTTP/1.1 (HTTP_1_1_REQUIRED).
        case requiresHTTP1 = 0xd
    }

    /// libcurl's own callback, as the bits of its address; 0 until libcurl has set it.
    private static let original = Atomic<UInt>(0)

    /// nghttp2's own function: the next symbol of this name after that of this program (`RTLD_NEXT`).
    fileprivate static let setter: Setter? = dlsym(UnsafeMutableRawPointer(bitPattern: -1), setterName)
        .map { unsafeBitCast($0, to: Setter.self) }
    private static let setterName = "nghttp2_session_callbacks_set_on_stream_close_callback"
    private static let userData: UserData? = dlsym(nil, "nghttp2_session_get_stream_user_data")
        .map { unsafeBitCast($0, to: UserData.self) }

    /// The multi handle of the calling network thread.
    private static let current: pthread_key_t? = {
        var key = pthread_key_t()
        return pthread_key_create(&key, nil) == 0 ? key : nil
    }()

    /// Sets the multi handle of the calling thread, which must outlive its use of libcurl; nil for none.
    static func enter(_ multi: MultiHandle?) {
        guard let current else { return }
        pthread_setspecific(current, multi.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) })
    }

    /// Returns the callback to set instead of libcurl's. Other users of nghttp2, which are not called by a network
    /// thread, keep their own.
    fileprivate static func replacement(for callback: Callback?) -> Callback? {
        guard let callback, userData != nil, let current, pthread_getspecific(current) != nil else { return callback }
        let bits = unsafeBitCast(callback, to: UInt.self)
        let (isFirst, earlier) = original.compareExchange(expected: 0, desired: bits, ordering: .acquiringAndReleasing)
        return isFirst || earlier == bits ? observe : callback
    }

    private static let observe: Callback = { session, stream, code, context in
        if let reason = Reason(rawValue: code), let easy = userData?(session, stream) { note(easy, reason) }
        let original = unsafeBitCast(RefusedStreams.original.load(ordering: .relaxed), to: Callback?.self)
        return original?(session, stream, code, context) ?? 0
    }

    /// Records that the server has not processed the request of a libcurl handle, which may belong to another library.
    private static func note(_ easy: UnsafeMutableRawPointer, _ reason: Reason) {
        guard let current, let multi = pthread_getspecific(current) else { return }
        Unmanaged<MultiHandle>.fromOpaque(multi)._withUnsafeGuaranteedRef { $0.noteRefusal(of: easy, reason) }
    }
}

/// Replaces nghttp2's function; see ``RefusedStreams``.
@_cdecl("nghttp2_session_callbacks_set_on_stream_close_callback")
package func setStreamCloseCallback(_ callbacks: OpaquePointer?, _ callback: RefusedStreams.Callback?) {
    RefusedStreams.setter?(callbacks, RefusedStreams.replacement(for: callback))
}
