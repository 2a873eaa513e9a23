import Testing

@testable import ConvoySupport

@Suite struct StatusTextTests {
    @Test(arguments: [
        (308, "permanent redirect"), (421, "misdirected request"), (422, "unprocessable content"), (423, "locked"),
        (424, "failed dependency"), (425, "too early"), (426, "upgrade required"), (428, "precondition required"),
        (429, "too many requests"), (431, "request header fields too large"), (451, "unavailable for legal reasons"),
        (511, "network authentication required"),
    ])
    func `a status without Apple's words has those of its reason phrase`(_ status: Int, _ text: String) {
        #expect(StatusText.localizedString(status) == text)
        #expect(StatusText.reasonPhrase(status).lowercased() == text)
    }

    @Test(arguments: [(200, "no error"), (404, "not found"), (410, "no longer exists"), (414, "requested URL too long")])
    func `a status known to Apple has Apple's words`(_ status: Int, _ text: String) {
        #expect(StatusText.localizedString(status) == text)
    }

    @Test(arguments: [
        (199, "informational"), (299, "success"), (399, "redirected"), (499, "client error"), (599, "server error"),
        (-1, "server error"), (Int.max, "server error"),
    ])
    func `an unknown status has the text of its class`(_ status: Int, _ text: String) {
        #expect(StatusText.localizedString(status) == text)
        #expect(StatusText.reasonPhrase(status).isEmpty)
    }
}
