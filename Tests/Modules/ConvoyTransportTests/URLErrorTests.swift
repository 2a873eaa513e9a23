import CCurl
import Foundation
import Testing

@testable import ConvoyTransport

/// The conversion of every libcurl result to a `URLError` with a meaningful code, the URL and libcurl's message.
@Suite struct URLErrorTests {
    private let url = URL(string: "http://example.com/")

    @Test func `every libcurl result becomes an error with a code, the URL and a description`() throws {
        for number in 1..<UInt32(CURL_LAST.rawValue) {
            let error = URLError(curl: CURLcode(number), systemError: 0, text: "", url: url)
            #expect(error.userInfo[NSURLErrorFailingURLErrorKey] as? URL == url)
            #expect((error.userInfo[NSLocalizedDescriptionKey] as? String)?.isEmpty == false)
            let cause = try #require(error.userInfo[NSUnderlyingErrorKey] as? NSError)
            #expect(cause.domain == URLError.libcurlErrorDomain && cause.code == Int(number))
        }
    }

    @Test(arguments: [
        (CURLE_COULDNT_CONNECT, ECONNREFUSED, URLError.Code.cannotConnectToHost),
        (CURLE_COULDNT_CONNECT, ETIMEDOUT, .timedOut),
        (CURLE_COULDNT_CONNECT, ENETUNREACH, .notConnectedToInternet),
        (CURLE_COULDNT_RESOLVE_HOST, 0, .cannotFindHost),
        (CURLE_OPERATION_TIMEDOUT, 0, .timedOut),
        (CURLE_RECV_ERROR, ECONNRESET, .networkConnectionLost),
        (CURLE_SEND_ERROR, ECONNRESET, .networkConnectionLost),
        (CURLE_PARTIAL_FILE, 0, .networkConnectionLost),
        (CURLE_GOT_NOTHING, 0, .networkConnectionLost),
        (CURLE_URL_MALFORMAT, 0, .badURL),
        (CURLE_PEER_FAILED_VERIFICATION, 0, .serverCertificateUntrusted),
        (CURLE_SSL_CONNECT_ERROR, 0, .secureConnectionFailed),
        (CURLE_BAD_CONTENT_ENCODING, 0, .cannotDecodeContentData),
        (CURLE_SEND_FAIL_REWIND, 0, .requestBodyStreamExhausted),
        (CURLE_ABORTED_BY_CALLBACK, 0, .unknown),
    ])
    func `libcurl results are mapped to Foundation's error codes`(result: CURLcode, system: Int32, expected: URLError.Code) {
        #expect(URLError.code(for: result, systemError: system) == expected)
    }

    @Test func `libcurl's own message is preferred to the generic one`() {
        let error = URLError(curl: CURLE_COULDNT_CONNECT, systemError: 0, text: "Connection refused by gate", url: url)
        #expect(error.userInfo[NSLocalizedDescriptionKey] as? String == "Connection refused by gate")
    }

    @Test(arguments: [
        (CURLE_UNSUPPORTED_PROTOCOL, "Received HTTP/0.9 when not allowed", "did not send a valid HTTP response"),
        (CURLE_HTTP2, "Error in the HTTP2 framing layer", "HTTP/2 connection failed"),
        (CURLE_HTTP2, "", "HTTP/2 connection failed"),
        (CURLE_HTTP2_STREAM, "Stream error in the HTTP/2 framing layer", "before the response was complete"),
        (CURLE_HTTP2_STREAM, "HTTP/2 stream 1 was not closed cleanly", "stream 1 was not closed"),
        (CURLE_SEND_ERROR, "Connection died, tried 5 times before giving up", "closed before the server responded"),
        (CURLE_SEND_ERROR, "Send failure: Broken pipe", "Broken pipe"),
    ])
    func `messages avoid libcurl jargon and keep its text as the cause`(result: CURLcode, text: String, part: String) throws
    {
        let error = URLError(curl: result, systemError: 0, text: text, url: url)
        #expect(error.localizedDescription.contains(part), "\(error.localizedDescription)")
        let cause = try #require(error.userInfo[NSUnderlyingErrorKey] as? NSError)
        #expect(text.isEmpty || cause.localizedDescription == text)
    }
}
