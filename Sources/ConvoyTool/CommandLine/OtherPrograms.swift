/// Replacements for options of curl, wget, aria2 and similar programs.
enum OtherPrograms {
    /// Returns the replacement for an unsupported option, or nil if no other program has such an option.
    static func advice(on option: String, for command: Command) -> String? {
        guard Command.transferring.contains(command) else { return nil }
        let own: [String: String] =
            switch command {
            case .get: ofGet
            case .send: ofSend
            case .run: ofRun
            default: [:]
            }
        return own[option] ?? common[option]
    }

    /// Returns a hint if the value of `-d`, which is the output directory here, looks like form data, and nil otherwise.
    static func advice(onDirectory value: String) -> String? {
        let looksLikeData = value.contains("=") && !value.contains("/") || value.hasPrefix("{") || value.hasPrefix("@")
        guard looksLikeData else { return nil }
        return "-d sets the output directory; \(sending); for a directory of that name, use -d ./NAME"
    }

    private static let sending =
        "get sends no data; convoy send POST URL NAME=VALUE does, with --form as a form"
    private static let following = "redirects are followed by default; --max-redirs 0 returns the redirect itself"

    private static let common: [String: String] = [
        "-L": following, "--location": following,
        "-s": "-q prints only errors", "--silent": "-q prints only errors", "-S": "errors are always printed",
        "--show-error": "errors are always printed", "-#": "a terminal shows bars by default",
        "--progress-bar": "a terminal shows bars by default", "--show-progress": "a terminal shows bars by default",
        "-b": "--cookie-jar FILE reads cookies, and -H 'Cookie: NAME=VALUE' sends one",
        "--cookie": "--cookie-jar FILE reads cookies, and -H 'Cookie: NAME=VALUE' sends one",
        "--load-cookies": "--cookie-jar FILE reads and writes cookies",
        "--save-cookies": "--cookie-jar FILE reads and writes cookies",
        "-e": "-H 'Referer: URL' sends it", "--referer": "-H 'Referer: URL' sends it",
        "-w": "--json prints the details of each transfer, and --timing its times",
        "--write-out": "--json prints the details of each transfer, and --timing its times",
        "--http-user": "--user NAME:PASSWORD", "--http-password": "--user NAME:PASSWORD",
        "--http-passwd": "--user NAME:PASSWORD", "--password": "--user NAME:PASSWORD",
        "--no-check-certificate": "-k", "--check-certificate": "certificates are checked by default",
        "--ca-certificate": "--cacert FILE", "--certificate": "--cert FILE", "--private-key": "--key FILE",
        "-T": "to upload, use convoy put FILE URL; for a timeout, --timeout SECONDS", "--tries": "--retry N",
        "--max-tries": "--retry N", "--waitretry": "the delays between retries grow automatically",
        "--retry-delay": "the delays between retries grow automatically",
        "--retry-connrefused": "--retry N does that", "--retry-all-errors": "--retry N, and --retry-on STATUS",
        "--retry-on-http-error": "--retry-on STATUS", "--compressed": "-H 'Accept-Encoding: gzip' requests it",
        "--compression": "-H 'Accept-Encoding: gzip' requests it", "--tlsv1.2": "--tls-min 1.2, which is the default",
        "--tlsv1.3": "--tls-min 1.3", "--http2": "HTTP/2 is used if the server supports it",
        "--fail": "a status of 400 or more is always an error", "-Z": "transfers run in parallel by default",
        "--parallel": "transfers run in parallel by default", "--parallel-max": "-j N",
        "-a": "convoy does not append to files",
        "--no-verbose": "-q prints only errors", "-E": "--cert FILE", "--http-proxy": "--proxy URL",
        "--https-proxy": "--proxy URL", "--all-proxy": "--proxy URL", "--no-proxy": "--proxy ''",
        "--dns-servers": "the system resolves names; --resolve HOST:PORT:ADDRESS sets an address",
    ]

    /// The replacements for options of curl and HTTPie.
    private static let ofSend: [String: String] = [
        "-X": method, "--request": method, "--method": method, "-d": items, "--data": items, "--data-raw": items,
        "--data-binary": items, "--data-urlencode": items, "--data-ascii": items, "--raw": items,
        "-F": "--multipart sends a multipart form, with NAME@FILE for a file", "-f": "--form sends the items as a form",
        "-j": "items are sent as JSON by default", "--auth-type": "--auth is Basic; --bearer TOKEN sends a token",
        "--follow": following, "-i": "--print hb prints the head and the body",
        "--include": "--print hb prints the head and the body", "-I": "convoy send HEAD URL, with --head",
        "--download": "convoy get URL downloads", "--verify": "-k trusts any certificate",
        "--check-status": "a status of 300 or more is always an error", "--pretty": "--color always or never",
    ]

    /// The replacements for options of Hurl and newman.
    private static let ofRun: [String: String] = [
        "-e": "--env-file FILE reads environment variables", "--environment": "--env-file FILE",
        "--variable": "--var NAME=VALUE", "--env-var": "--var NAME=VALUE", "--global-var": "--var NAME=VALUE",
        "--variables-file": "--env-file FILE", "--iteration-data": "--data FILE.csv",
        "--test": "the exit status always reports failures", "--ignore-asserts": "--no-expect",
        "--very-verbose": "-v prints what is sent and received", "--report-junit": "--report junit=FILE",
        "--report-tap": "--report tap", "--reporters": "--report junit=FILE or tap",
        "--reporter-junit-export": "--report junit=FILE", "--bail": "--fail-fast", "--continue-on-error": "--keep-going",
        "--folder": "--only ID", "--from-entry": "--only ID", "--to-entry": "--only ID",
        "--delay-request": "use perSecond in the manifest",
    ]

    private static let method = "the method is the first argument: convoy send POST URL"
    private static let items = "NAME=VALUE after the URL sends JSON, or a form with --form; --body FILE sends a file"

    private static let ofGet: [String: String] = [
        "-t": "--retry N", "-O": "files are named after the URL by default; -o FILE sets a name",
        "--remote-name": "files are named after the URL by default",
        "--remote-name-all": "files are named after the URL by default", "--output-document": "-o FILE",
        "--output-dir": "-d DIR", "--create-dirs": "missing directories are always created", "-P": "-d DIR",
        "--directory-prefix": "-d DIR", "--dir": "-d DIR", "--out": "-o FILE",
        "--content-disposition": "-J uses the server's file names", "-C": "interrupted downloads always resume",
        "--continue-at": "interrupted downloads always resume",
        "--continue": "interrupted downloads always resume",
        "--split": "-s N", "--max-connection-per-server": "-s N", "--max-concurrent-downloads": "-j N",
        "--max-download-limit": "--limit-rate-each RATE", "--max-overall-download-limit": "--limit-rate RATE",
        "--max-threads": "-j N", "--random-wait": "--wait 1-3 waits 1 to 3 seconds",
        "-w": "--wait SECONDS waits between starts; --json prints the status and the times",
        "--server-response": "-v prints what is received", "--input-metalink": "-i FILE also reads Metalink files",
        "--metalink-file": "-i FILE also reads Metalink files", "-M": "-i FILE also reads Metalink files",
        "-X": sending, "--request": sending, "--data": sending, "--data-raw": sending, "--data-binary": sending,
        "--data-urlencode": sending, "--json-data": sending, "-F": sending, "--form": sending, "--post-data": sending,
        "--post-file": sending, "--method": sending, "--body-data": sending, "-G": sending,
        "--upload-file": sending, "-K": "put default options into ~/.config/convoy/config.json",
        "--recursive": "convoy does not follow links in pages", "-p": "convoy does not follow links in pages",
        "--mirror-site": "convoy does not follow links in pages", "-b": "convoy stays in the foreground; use & or nohup",
        "--background": "convoy stays in the foreground; use & or nohup",
        "--allow-overwrite": "-f", "--auto-file-renaming": "--number", "-nc": "--no-clobber",
        "--no-clobber-files": "-c", "--if-modified-since": "-N", "-z": "-N downloads only changed files",
        "--time-cond": "-N downloads only changed files", "-R": "files always get the server's modification time",
        "--remote-time": "files always get the server's modification time", "-g": "brackets in URLs are never expanded",
        "--globoff": "brackets in URLs are never expanded", "--url": "give the URL as an argument",
        "--quota": "convoy has no total size limit", "-Q": "convoy has no total size limit",
        "--post301": sending, "-U": "-A TEXT", "--etag-save": "-N stores entity tags with the files",
        "--etag-compare": "-N stores entity tags with the files", "--max-filesize": "convoy has no file size limit",
    ]
}
