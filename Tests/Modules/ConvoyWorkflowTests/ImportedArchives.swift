import ConvoySerialization

/// The archives for ``ImportedArchiveTests``. Each row contains the entries of one archive.
enum ImportedArchives {
    /// A request of an archive with its response.
    struct Entry {
        var method = "GET"
        var target: String
        var fields: [(String, String)] = []
        /// The `postData` of the request.
        var body: JSON?
        var status = 200
        var responseFields: [(String, String)] = []
        /// The body that is sent, if it differs from the text in the archive.
        var sent: String?
        /// Whether the imported manifest omits the request.
        var isLeftOut = false
        /// Whether the run receives the recorded cookies from its own requests.
        var hasOwnCookies = false

        init(_ text: String, _ fields: [(String, String)] = [], _ body: JSON? = nil) {
            let words = text.split(separator: " " as Character).map(String.init)
            (method, target, self.fields, self.body) = (words[0], words[1], fields, body)
        }

        func answered(_ status: Int, _ fields: (String, String)...) -> Entry {
            var entry = self
            (entry.status, entry.responseFields) = (status, fields)
            return entry
        }

        func sending(_ text: String) -> Entry {
            var entry = self
            entry.sent = text
            return entry
        }

        var leftOut: Entry {
            var entry = self
            entry.isLeftOut = true
            return entry
        }

        var withOwnCookies: Entry {
            var entry = self
            entry.hasOwnCookies = true
            return entry
        }

        /// Returns the entry as JSON, with the given server instead of the recorded one.
        func json(_ server: String) -> JSON {
            var request = JSONObject()
            request["method"] = .string(method)
            request["url"] = .string(target.hasPrefix("/") ? server + target : target)
            request["headers"] = Self.list(fields)
            request["postData"] = body
            return [
                "request": .object(request),
                "response": ["status": .number(JSONNumber(status)), "headers": Self.list(responseFields)],
            ]
        }

        private static func list(_ fields: [(String, String)]) -> JSON {
            .array(fields.map { ["name": .string($0.0), "value": .string($0.1)] })
        }
    }

    private static let form = ("Content-Type", "application/x-www-form-urlencoded")
    private static let json = ("Content-Type", "application/json")
    private static let plain = ("Content-Type", "text/plain;charset=UTF-8")

    private static func text(_ type: (String, String), _ text: String) -> JSON {
        ["mimeType": .string(type.1), "text": .string(text)]
    }

    private static func params(_ type: String, _ pairs: (String, String)...) -> JSON {
        ["mimeType": .string(type), "params": .array(pairs.map { ["name": .string($0.0), "value": .string($0.1)] })]
    }

    /// Archives whose requests the run sends exactly.
    static let equal: [[Entry]] = [
        [Entry("GET /x")], [Entry("GET /x?a=b&c=d")], [Entry("GET /a%20b?q=%C3%A9")], [Entry("GET /é|{x}")],
        [Entry("HEAD /x")], [Entry("DELETE /x")], [Entry("OPTIONS /x")], [Entry("PROPFIND /x")], [Entry("POST /x")],
        [Entry("GET /x", [("Accept", "text/html"), ("Accept-Language", "de")])],
        [Entry("GET /x", [("user-agent", "Mozilla/5.0"), ("referer", "https://r.test/"), ("origin", "https://o.test")])],
        [Entry("GET /x", [("sec-fetch-mode", "cors"), ("sec-ch-ua", "\"C\";v=\"1\""), ("priority", "u=1, i")])],
        [Entry("GET /x", [(":method", "GET"), (":path", "/x"), ("Host", "h"), ("Connection", "keep-alive")])],
        [Entry("GET /x", [("X-A", "1"), ("x-a", "2")])], [Entry("GET /x", [("X-T", "${a} $${b}")])],
        [Entry("GET /x", [("Cookie", "a=b; sid=0123456789")])], [Entry("GET /x", [json], text(json, "{}"))],
        [Entry("GET /x", [("Cookie", "a=b"), ("cookie", "c=d")])],
        [Entry("GET /x", [("Authorization", "Bearer tok-0123456789")])],
        [Entry("GET /x", [("Authorization", "Basic YWRhOnB3")])], [Entry("GET /x", [("X-Api-Key", "0123456789")])],
        [Entry("GET /x?access_token=0123456789")],
        [Entry("GET /x", [("If-None-Match", "\"x\"")]).answered(304)],
        [Entry("GET /x", [("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT")]).answered(200)],
        [Entry("GET /x", [("Range", "bytes=0-4")]).answered(206)],
        [Entry("GET /x").answered(404)], [Entry("GET /x").answered(500), Entry("GET /y")],
        [Entry("GET /x").answered(204)],
        [Entry("GET /x").answered(302, ("Location", "/y")), Entry("GET /y")],
        [Entry("POST /x", [form], text(form, "a=b")).answered(303, ("Location", "/y")), Entry("GET /y")],
        [
            Entry("POST /x", [form], text(form, "a=b&c=d+e%26"))
        ],
        [Entry("POST /x", [form], text(form, "a=1&b=2&a=3"))],
        [
            Entry("POST /x", [form], params(form.1, ("username", "admin"), ("password", "hunter22"))).sending(
                "username=admin&password=hunter22")
        ],
        [Entry("POST /x", [form], params(form.1, ("a", "b c"), ("é", "&="), ("a", "d"))).sending("a=b c&é=&=&a=d")],
        [Entry("POST /x", [json], text(json, "{\"a\": [1, 2.0, \"é\"]}"))],
        [Entry("PUT /x", [json], text(json, "{\"a\":1,\"a\":2}"))],
        [Entry("PATCH /x", [("content-type", "application/json;charset=UTF-8")], text(json, "{\"${k}\":\"${v}\"}"))],
        [Entry("POST /x", [json], text(json, "{\"user\":\"ada\",\"password\":\"correct-horse\"}"))],
        [Entry("POST /x", [json], text(json, "not json"))],
        [Entry("POST /x", [plain], text(plain, "line 1\r\nline 2\n"))],
        [Entry("POST /x", [plain], text(plain, "# ${x}: \"y\"\u{0}\u{1}"))],
        [Entry("POST /x", [plain], ["mimeType": "text/plain", "text": "aMOpCg==", "encoding": "base64"]).sending("hé\n")],
        [
            Entry(
                "POST /x", [("Content-Type", "multipart/form-data; boundary=XX")],
                text(
                    ("", "multipart/form-data; boundary=XX"),
                    "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--XX--\r\n"))
        ],
        [
            Entry(
                "POST /x", [("Content-Type", "multipart/form-data; boundary=XX")],
                params("multipart/form-data", ("a", "b"), ("c", "d"))
            )
            .sending(
                "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--B\r\nContent-Disposition: form-data; name=\"c\"\r\n\r\nd\r\n--B--\r\n"
            )
        ],
        [Entry("POST /x", [], text(("", "text/x"), "t"))],
        [
            Entry("GET /1"), Entry("POST /2", [form], text(form, "a=b")), Entry("GET /3"), Entry("DELETE /4"),
            Entry("GET /1"),
        ],
        [
            Entry("POST /login", [form], text(form, "user=ada&password=hunter22")).answered(
                200, ("Set-Cookie", "sid=abcdef; Path=/")),
            Entry("GET /me", [("Cookie", "sid=abcdef")]).withOwnCookies,
        ],
        [
            Entry("GET /x"), Entry("GET wss://a.test/socket").leftOut, Entry("GET data:text/plain,x").leftOut,
            Entry("GET /y"),
        ],
    ]

    /// Archives whose requests the run cannot send exactly, as a note states.
    static let announced: [[Entry]] = [
        [Entry("POST /x", [("Content-Type", "application/octet-stream")], ["text": "/w==", "encoding": "base64"])],
        [Entry("POST /x", [plain], text(plain, "a\u{FFFD}b"))],
        [
            Entry(
                "POST /x", [("Content-Type", "multipart/form-data; boundary=X")],
                [
                    "mimeType": "multipart/form-data",
                    "params": [["name": "f", "fileName": "a.png", "contentType": "image/png"]],
                ])
        ],
        [Entry("GET /x", [("X-A", "a\u{1}b")])], [Entry("GET /x", [("X A", "b")])],
        [Entry("CONNECT a.test:443"), Entry("GET /y")],
        [
            Entry("GET /a").answered(200, ("Set-Cookie", "sid=1")), Entry("GET /b", [("Cookie", "sid=1; old=2")]),
        ],
    ]
}
