import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The heads of requests and responses, as lines.
enum HeadText {
    /// Returns the head of a response.
    ///
    /// - Parameter showsSecrets: Whether secrets are printed, because the head is the requested output.
    static func lines(
        _ version: String, _ status: Int, _ fields: [(name: String, value: String)], showsSecrets: Bool, _ display: Display
    ) -> [String] {
        let phrase = HTTPURLResponse.localizedString(forStatusCode: status)
        let colour: Display.Colour = status >= 400 ? .red : status >= 300 ? .yellow : .green
        let start = display.paint(Printable.line("\(version) \(status) \(phrase)"), colour)
        return [start]
            + fields.map { line($0.name, showsSecrets ? $0.value : Shown.value($0.name, $0.value), display) }
    }

    /// Returns the head of a request, without the fields that authentication adds.
    static func lines(of request: URLRequest, for operation: HTTPRequestOperation) throws -> [String] {
        try fields(of: request, for: operation).map { field in field.value.map { "\(field.name): \($0)" } ?? field.name }
    }

    /// Returns the head of a request in color.
    static func coloured(
        _ request: URLRequest, for operation: HTTPRequestOperation, _ display: Display
    ) throws -> [String] {
        try fields(of: request, for: operation).map { field in
            field.value.map { line(field.name, $0, display) } ?? display.paint(Printable.line(field.name), .bold)
        }
    }

    private static func line(_ name: String, _ value: String, _ display: Display) -> String {
        "\(display.paint(Printable.line(name), .cyan)): \(Printable.line(value))"
    }

    /// Returns the request line, which has no value, and the fields.
    private static func fields(
        of request: URLRequest, for operation: HTTPRequestOperation
    ) throws -> [(name: String, value: String?)] {
        let configuration = operation.connectionConfiguration
        guard let address = request.url.flatMap({ HTTPAddress($0.absoluteString) }),
            let uri = RequestTarget.originForm(of: address, keepingDotSegments: configuration.keepsDotSegments),
            let target = CookieTarget(address, keepingDotSegments: configuration.keepsDotSegments)
        else { throw URLError(.badURL) }
        let secrets = configuration.secrets
        let method = request.httpMethod ?? "GET"
        let sent = try RequestHeader(fields: request.allHTTPHeaderFields ?? [:]).makeSentFields()
        func has(_ name: String) -> Bool { sent.contains { $0.name.lowercased() == name } }
        var fields: [(String, String)] = []
        if !has("host") { fields.append(("Host", address.target.authority)) }
        if !has("accept") { fields.append(("Accept", "*/*")) }
        // HTTP/1.0 has no interim responses, so the expectation is not sent.
        let isOldest = configuration.maximumHTTPVersion == .http1_0
        fields += sent.filter { !isOldest || $0.name.lowercased() != "expect" }.map { ($0.name, $0.value) }
        let cookies = operation.cookieStore?.field(
            for: target, site: request.mainDocumentURL, isSafeMethod: ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method))
        if let cookies, !has("cookie") { fields.append(("Cookie", String(decoding: cookies, as: UTF8.self))) }
        if let body = request.httpBody { fields.append(("Content-Length", "\(body.count)")) }
        let version = min(configuration.maximumHTTPVersion, .http1_1)
        return [("\(method) \(Shown.url(uri)) \(version)", nil)] + fields.map { ($0, Shown.value($0, $1, secrets)) }
    }
}
