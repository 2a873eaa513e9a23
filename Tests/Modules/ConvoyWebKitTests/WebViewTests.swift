import ConvoyTestSupport
import Foundation
import Testing

enum WebViews {
    #if WebKit
    static let areRunnable = VirtualDisplay.isInstalled
    #else
    static let areRunnable = false
    #endif
}

/// The web views of a separate program on a virtual display.
@Suite(.serialized, .enabled(if: WebViews.areRunnable, "WebKitGTK, Xvfb, xdotool or ImageMagick is not installed"))
struct WebViewTests {
    @Test func `a page is loaded through Convoy, and its content can be changed before display`() throws {
        let display = try VirtualDisplay()
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let program = tests.deletingLastPathComponent().appendingPathComponent("WidgetProgram").path
        let result = try ProcessRunner.run(program, ["web"], environment: display.environment(), timeout: 150)
        try #require(result.status == 0, "\(result.text)\n\(result.errorText)")
        let line = result.text.split(separator: "\n").last.map(String.init) ?? ""
        let seen = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
        #expect(seen["page"] as? String == "200")
        #expect(seen["address"] as? Bool == true, "the page's address is the one after the redirect")
        #expect(seen["hasMoved"] as? Bool == true)
        #expect(seen["cookie"] as? String == "key=value")
        #expect(seen["requests"] as? Int == 2, "WebKit sends no requests itself")
        #expect(seen["data"] as? String == "200")
        #expect(seen["empty"] as? String == "200")
        #expect(seen["wrongEncodings"] as? [String] == [])
        #expect((seen["missing"] as? String)?.isEmpty == false && seen["missing"] as? String != "200")
        #expect(seen["thrown"] as? String == "-1017")
        #expect((seen["archive"] as? String)?.contains("application/zip") == true)
        #expect(seen["errorPage"] as? Bool == true)
        #expect(seen["firstIsCancelled"] as? Bool == true)
        #expect(seen["callsOfCancelled"] as? Int == 0)
    }
}
