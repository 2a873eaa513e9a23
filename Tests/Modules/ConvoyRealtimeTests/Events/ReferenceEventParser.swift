import ConvoyRealtime
import ConvoyTestSupport
import Foundation

/// An independent parser in Python, which first decodes the whole stream as in the standard, and then reads its lines.
enum ReferenceEventParser {
    static var isThere: Bool { (try? ProcessRunner.run("python3", ["--version"]))?.status == 0 }

    struct Outcome: Decodable, Hashable {
        var events: [[String]]
        var lastEventID: String
        var retry: String?
    }

    /// Returns the result for each stream.
    static func parse(_ streams: [Data]) throws -> [Outcome] {
        let input = streams.map { $0.base64EncodedString() + "\n" }.joined()
        let result = try ProcessRunner.run("python3", ["-c", script], input: Data(input.utf8), timeout: 60)
        guard result.status == 0 else { throw ProcessError.notInstalled(result.errorText) }
        return try JSONDecoder().decode([Outcome].self, from: result.output)
    }

    private static let script = #"""
        import base64, json, re, sys

        def parse(stream):
            text = stream.decode("utf-8", "replace")
            if text.startswith("\ufeff"):
                text = text[1:]
            lines = re.split("\r\n|\r|\n", text)
            lines.pop()  # the unterminated line
            events, data, kind, buffered, last, retry = [], "", "", "", "", None
            for line in lines:
                if line == "":
                    last = buffered
                    if data != "":
                        events.append([kind or "message", data[:-1], last])
                    data, kind = "", ""
                    continue
                if line[0] == ":":
                    continue
                name, colon, value = line.partition(":")
                if value[:1] == " ":
                    value = value[1:]
                if name == "event":
                    kind = value
                elif name == "data":
                    data += value + "\n"
                elif name == "id" and "\0" not in value:
                    buffered = value
                elif name == "retry" and re.fullmatch("[0-9]+", value):
                    retry = str(int(value))
            return {"events": events, "lastEventID": last, "retry": retry}

        print(json.dumps([parse(base64.b64decode(line)) for line in sys.stdin]))
        """#
}
