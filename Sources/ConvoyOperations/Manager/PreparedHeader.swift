import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The header that a request serializer makes for every GET without parameters, made once.
struct PreparedHeader: Sendable {
    let header: RequestHeader
    let timeoutInterval: TimeInterval

    /// Nil for serializers of other types, and for those whose header cannot be sent: they throw for each request.
    init?(_ serializer: any URLRequestSerialization) {
        let http: HTTPRequestSerializer
        switch serializer {
        case let serializer as HTTPRequestSerializer: http = serializer
        case let serializer as JSONRequestSerializer: http = serializer.http
        default: return nil
        }
        guard let fields = http.fieldsOfPlainRequest, let header = try? RequestHeader(fields: fields) else { return nil }
        self.header = header
        timeoutInterval = http.timeoutInterval ?? Self.defaultTimeoutInterval
    }

    /// Foundation's default.
    private static let defaultTimeoutInterval = URLRequest(url: URL(fileURLWithPath: "/")).timeoutInterval
}
