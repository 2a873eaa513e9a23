/// The options of curl that a command line may contain, by their long names.
enum CurlOption {
    /// The long names of the short options.
    static let short: [Character: String] = [
        "0": "http1.0", "1": "tlsv1", "2": "sslv2", "3": "sslv3", "4": "ipv4", "6": "ipv6", "a": "append",
        "A": "user-agent", "b": "cookie", "B": "use-ascii", "c": "cookie-jar", "C": "continue-at", "d": "data",
        "D": "dump-header", "e": "referer", "E": "cert", "f": "fail", "F": "form", "g": "globoff", "G": "get",
        "H": "header", "i": "include", "I": "head", "j": "junk-session-cookies", "J": "remote-header-name", "k": "insecure",
        "K": "config", "l": "list-only", "L": "location", "m": "max-time", "M": "manual", "n": "netrc", "N": "no-buffer",
        "o": "output", "O": "remote-name", "p": "proxytunnel", "P": "ftp-port", "q": "disable", "Q": "quote", "r": "range",
        "R": "remote-time", "s": "silent", "S": "show-error", "t": "telnet-option", "T": "upload-file", "u": "user",
        "U": "proxy-user", "v": "verbose", "w": "write-out", "x": "proxy", "X": "request", "y": "speed-time",
        "Y": "speed-limit", "z": "time-cond", "Z": "parallel", "#": "progress-bar", ":": "next",
    ]

    /// The flags to ignore, which concern curl's output or the reuse of connections, or request the default behaviour
    /// of a manifest.
    static let ignoredFlags: Set<String> = [
        "silent", "show-error", "verbose", "include", "progress-bar", "no-progress-meter", "no-buffer",
        "styled-output", "no-styled-output", "fail", "fail-with-body", "fail-early", "location", "compressed",
        "create-dirs", "clobber", "disable", "tcp-nodelay", "no-keepalive", "tcp-fastopen", "no-sessionid", "no-alpn",
        "parallel", "no-location", "false-start", "show-headers",
    ]

    /// The flags that a manifest cannot express, and that change neither what is sent nor its receiver. Each flag gets
    /// a note.
    static let notedFlags: Set<String> = [
        "http0.9", "http2-prior-knowledge", "http3", "http3-only", "netrc", "netrc-optional",
        "post301", "post302", "post303", "remote-header-name", "remote-time",
        "retry-all-errors", "retry-connrefused", "proxytunnel", "proxy-insecure", "proxy-ntlm", "proxy-digest",
        "proxy-anyauth", "ssl", "ssl-reqd", "ssl-allow-beast", "ssl-no-revoke", "cert-status", "tlsv1", "tlsv1.0", "tlsv1.1",
        "xattr", "raw", "tr-encoding", "junk-session-cookies", "suppress-connect-headers", "ca-native", "haproxy-protocol",
        "ignore-content-length", "disallow-username-in-url", "metalink", "styled", "mptcp", "remove-on-error",
        "no-clobber", "skip-existing", "doh-insecure", "doh-cert-status",
    ]

    static let notedValues: Set<String> = [
        "write-out", "dump-header", "cookie-jar", "trace", "trace-ascii", "trace-config", "stderr", "continue-at",
        "time-cond", "speed-time", "speed-limit", "retry-delay", "proxy-user", "proxy-header", "proxy-cacert", "preproxy",
        "socks5", "socks5-hostname", "socks4", "socks4a", "dns-servers", "dns-interface", "doh-url", "capath", "ciphers",
        "tls13-ciphers", "curves", "tls-max", "cert-type", "key-type", "pass", "engine", "proto", "proto-redir",
        "local-port",
        "keepalive-time", "expect100-timeout", "max-filesize", "rate", "etag-save", "etag-compare", "alt-svc", "hsts",
        "request-target", "happy-eyeballs-timeout-ms", "delegation", "proto-default", "service-name", "parallel-max",
        "variable",
        "config", "create-file-mode", "libcurl", "ech", "ip-tos", "vlan-priority", "keepalive-cnt",
    ]

    static let flags: Set<String> = [
        "get", "head", "insecure", "http1.0", "http1.1", "http2", "ipv4", "ipv6", "remote-name", "remote-name-all",
        "globoff", "tlsv1.2", "tlsv1.3", "basic", "digest", "anyauth", "ntlm", "negotiate", "location-trusted",
        "path-as-is",
    ]

    static let values: Set<String> = [
        "request", "url", "header", "user-agent", "referer", "cookie", "data", "data-ascii", "data-binary", "data-raw",
        "data-urlencode", "json", "form", "form-string", "upload-file", "user", "oauth2-bearer", "proxy", "noproxy",
        "resolve", "connect-to", "unix-socket", "interface", "cacert", "crlfile", "pinnedpubkey", "cert", "key",
        "connect-timeout", "max-time", "max-redirs", "limit-rate", "retry", "retry-max-time", "range", "netrc-file",
        "output", "output-dir", "url-query", "aws-sigv4",
    ]

    /// The ``notedValues`` whose values are never secrets. Notes include these values, so that the option can be found.
    static let shownValues = notedValues.subtracting(["proxy-user", "proxy-header", "pass", "preproxy", "variable"])

    static func isFlag(_ name: String) -> Bool {
        flags.contains(name) || ignoredFlags.contains(name) || notedFlags.contains(name)
    }

    /// Returns the name that an abbreviation stands for in curl, or the argument itself if it is a name or ambiguous.
    static func completed(_ text: String) -> String {
        guard !all.contains(text), text.count > 1 else { return text }
        let found = all.filter { $0.hasPrefix(text) }
        return found.count == 1 ? found.first ?? text : text
    }

    private static let all = flags.union(values).union(ignoredFlags).union(notedFlags).union(notedValues)
}
