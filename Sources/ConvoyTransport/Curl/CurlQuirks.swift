/// The workarounds for defects and differences of libcurl versions.
///
/// A row lists the affected versions, the defect, the place that handles it, and the test that provokes it. Unless the
/// row has a property below, the workaround is harmless with other versions and applies to all. When Convoy gives up a
/// version, delete the rows that end with it, together with their code.
///
/// Heads:
/// - 7.83 to 7.88: keeps a pointer to the last field of the handle's previous response, and frees it again if the next
///   head begins with a folded line. `FoldedLineGuard`, `EasyHandle.isWornOut`. `FoldedResponseTests`.
/// - 7.88: a transfer that is resumed and paused again before it runs reads once more while paused, and passes the
///   collected lines of a head in one call. `EasyHandle.take(_:)`, `mayMergeLines`. `HoldTests`.
/// - 7.88: accepts `HtTP/1.1 200` as a status line, and assigns no status to a line with an unknown version.
///   `HeadParser`. `FaultTests`.
/// - 7.88 to 8.14: reads only the first line of a folded field, so the framing must be valid with and without the rest.
///   `HeadParser`. `FoldedResponseTests`.
/// - 8.14: treats a response that specifies both an empty body and chunks as empty once it has to wait for the chunks.
///   `HeadParser.deniesItsChunks`. `WireTests`.
/// - 8.6 and later: report a head that is too long as `CURLE_TOO_LARGE`, earlier ones as a lack of memory. `tooLarge`.
///   `WireTests`.
/// - 8.23: passes half of an empty line as the end of a head if the connection ends there. `HeadParser`. `WireTests`.
///
/// Bodies:
/// - Before 8.1: report the body of a reset HTTP/2 stream as complete if more bytes arrived for another stream than fit
///   into its buffer. `hidesResets`. `HiddenResetTests`.
/// - 7.88: keeps the refused bytes of a stopped transfer if others use its HTTP/2 connection, and passes them to the
///   handle's next transfer. `EasyHandle.holdsBytes`, `MultiHandle.stop(_:closing:)`. `NginxTests`,
///   `AbandonedResponseTests`.
/// - 7.88: counts repeated requests over the life of a handle, and fails transfers after five.
///   `EasyHandle.isWornOut`. `ResendTests`.
/// - 8.14: does not rewind the request's body before it repeats the request over HTTP/1.1. `NetworkExchange.maySendAgain()`.
///   `RefusedStreamTests`.
/// - 8.14: keeps requesting an immediate call while an HTTP/2 transfer whose end has arrived is paused.
///   `MultiHandle.putOffCall()`. `HeldBackTests`.
///
/// Connections:
/// - 7.88: does not try the next address of a name if a socket was denied. `MultiHandle.wakeStalled()`.
///   `GuardedNameTests`.
/// - 7.88: uses an idle connection on which an unsolicited response has arrived. `SocketTable.noteUnwanted`, `abandon`.
///   `UnaskedResponseTests`.
/// - 8.22 and later: check only once per second whether an idle connection is alive. `trustsIdleConnections`.
///   `DeadConnectionTests`.
/// - 7.88: may give a connection that was authenticated with Negotiate to another user's transfer. `Negotiation`.
///   `NegotiateTests`.
/// - 7.88: treats a connection to an abstract socket as still connecting, and never reuses it.
///   `EasyHandle.Options.needsOwnConnection`. `UnixSocketTests`.
/// - 7.87 and later: cache certificate authorities for all connections of a multi handle.
///   `EasyHandle.setSecureOptions()`. `ConnectionReuseTests`.
/// - 8.14: discards names immediately if they are to be kept forever, -1. `Route.nameCacheSeconds`. `NameCacheTests`.
/// - 7.88: decodes percent escapes in the user and password of a SOCKS proxy, and 8.14 does not. `Proxy.libcurlText`.
///   `ProxyTextTests`.
/// - 7.88: compares IPv6 addresses in `no_proxy` as text. `ProxySelection`. `ProxyExceptionsTests`.
/// - All: read the body of a proxy's refusal byte by byte in a loop. `EasyHandle.tunnelLimit`. `HostileProxyTests`.
/// - 8.14 and later: need a descriptor for a multi handle, and do not report its lack. `MultiHandle.init`.
///   `NetworkThreadStartTests`.
///
/// Reports:
/// - 8.7 and later: count the request's body as part of the request. `countsBodyAsRequest`. `ByteCountTests`.
/// - 7.88 to 8.14: the wording of the messages that contain no secrets. `TraceRecorder`. `TraceRecorderTests`.
enum CurlQuirks {
    /// The workaround for folded lines at the start of a head.
    static let foldedLines: FoldedLineGuard.Need =
        switch TransportLibraries.libcurl {
        case 0x07_58_00...0x07_58_ff: .hidingOfLine
        case ..<0x07_53_00, 0x08_00_00...: .nothing
        default: .newHandle
        }

    /// Whether libcurl may hide that an HTTP/2 stream was reset.
    static let hidesResets = TransportLibraries.libcurl < 0x08_01_00

    /// Whether libcurl may use a connection that has died in the last second. A request that must not be sent twice
    /// would fail on it.
    static let trustsIdleConnections = TransportLibraries.libcurl >= 0x08_16_00

    /// Whether the size of a request includes its body.
    static let countsBodyAsRequest = TransportLibraries.libcurl >= 0x08_07_00

    /// The result code `CURLE_TOO_LARGE`, which the headers of earlier versions do not declare.
    static let tooLarge: UInt32 = 100
}
