/// The habits that people have from curl, wget and aria2: what an option of theirs is here.
enum OtherPrograms {
    /// What to type in place of an option that there is not; nil for one that no other program has.
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

    /// Why a value of `-d`, which is the directory here, looks like the data of a form; nil if it does not.
    static func advice(onDirectory value: String) -> String? {
        let looksLikeData = value.contains("=") && !value.contains("/") || value.hasPrefix("{") || value.hasPrefix("@")
        guard looksLikeData else { return nil }
        return "-d is the directory here; \(sending); for a directory of that name type -d ./NAME"
    }

    private static let sending =
        "get sends no data; convoy send POST URL NAME=VALUE does, with --form as a form"
    private static let following = "redirects are followed without it; with --max-redirs 0 a redirect is the response"

    private static let common: [String: String] = [
        "-L": following, "--location": following,
        "-s": "-q prints only errors", "--silent": "-q prints only errors", "-S": "errors are printed without it",
        "--show-error": "errors are printed without it", "-#": "a terminal has bars without it",
        "--progress-bar": "a terminal has bars without it", "--show-progress": "a terminal has bars without it",
        "-b": "--cookie-jar FILE reads cookies, and -H 'Cookie: NAME=VALUE' sends one",
        "--cookie": "--cookie-jar FILE reads cookies, and -H 'Cookie: NAME=VALUE' sends one",
        "--load-cookies": "--cookie-jar FILE reads and writes cookies",
        "--save-cookies": "--cookie-jar FILE reads and writes cookies",
        "-e": "-H 'Referer: URL' sends it", "--referer": "-H 'Referer: URL' sends it",
        "-w": "--json has what is known of each, and --timing its times",
        "--write-out": "--json has what is known of each, and --timing its times",
        "--http-user": "--user NAME:PASSWORD", "--http-password": "--user NAME:PASSWORD",
        "--http-passwd": "--user NAME:PASSWORD", "--password": "--user NAME:PASSWORD",
        "--no-check-certificate": "-k", "--check-certificate": "certificates are checked without it",
        "--ca-certificate": "--cacert FILE", "--certificate": "--cert FILE", "--private-key": "--key FILE",
        "-T": "convoy put FILE URL uploads, and --timeout SECONDS limits", "--tries": "--retry N",
        "--max-tries": "--retry N", "--waitretry": "the waits between tries grow by themselves",
        "--retry-delay": "the waits between tries grow by themselves",
        "--retry-connrefused": "--retry N does that", "--retry-all-errors": "--retry N, and --retry-on STATUS",
        "--retry-on-http-error": "--retry-on STATUS", "--compressed": "-H 'Accept-Encoding: gzip' asks for it",
        "--compression": "-H 'Accept-Encoding: gzip' asks for it", "--tlsv1.2": "--tls-min 1.2, which is the default",
        "--tlsv1.3": "--tls-min 1.3", "--http2": "HTTP/2 is used where the server has it",
        "--fail": "a status of 400 or more is an error without it", "-Z": "transfers are parallel without it",
        "--parallel": "transfers are parallel without it", "--parallel-max": "-j N", "-a": "nothing is appended to a file",
        "--no-verbose": "-q prints only errors", "-E": "--cert FILE", "--http-proxy": "--proxy URL",
        "--https-proxy": "--proxy URL", "--all-proxy": "--proxy URL", "--no-proxy": "--proxy ''",
        "--dns-servers": "the system's name servers are asked; --resolve HOST:PORT:ADDRESS asks none",
    ]

    /// curl's and HTTPie's.
    private static let ofSend: [String: String] = [
        "-X": method, "--request": method, "--method": method, "-d": items, "--data": items, "--data-raw": items,
        "--data-binary": items, "--data-urlencode": items, "--data-ascii": items, "--raw": items,
        "-F": "--multipart sends parts, with NAME@FILE for a file", "-f": "--form sends the items as a form",
        "-j": "items are sent as JSON without it", "-a": "--user NAME:PASSWORD", "--auth": "--user NAME:PASSWORD",
        "--follow": following, "--print": "--head prints the head, and -v both heads",
        "-p": "--head prints the head, and -v both heads", "-i": "--head prints the head, and -v both heads",
        "--include": "--head prints the head, and -v both heads", "-I": "convoy send HEAD URL, with --head",
        "-o": "the body goes to standard output: > FILE", "--output": "the body goes to standard output: > FILE",
        "--download": "convoy get URL downloads", "--verify": "-k trusts any certificate",
        "--offline": "--curl prints the request as a curl command", "--session": "--cookie-jar FILE keeps cookies",
        "--check-status": "a status of 300 or more is an error without it", "--pretty": "--color always or never",
    ]

    /// Hurl's and newman's.
    private static let ofRun: [String: String] = [
        "-e": "--env-file FILE takes variables of the environment", "--environment": "--env-file FILE",
        "--variable": "--var NAME=VALUE", "--env-var": "--var NAME=VALUE", "--global-var": "--var NAME=VALUE",
        "--variables-file": "--env-file FILE", "--iteration-data": "--data FILE.csv",
        "--test": "the status says it without it",
        "--very-verbose": "-v prints what is sent and received", "--report-junit": "--report junit=FILE",
        "--report-tap": "--report tap", "--reporters": "--report junit=FILE or tap",
        "--reporter-junit-export": "--report junit=FILE", "--bail": "--fail-fast", "--continue-on-error": "--keep-going",
        "--folder": "--only ID", "--from-entry": "--only ID", "--to-entry": "--only ID",
        "--delay-request": "perSecond of the manifest",
    ]

    private static let method = "the method is the first argument: convoy send POST URL"
    private static let items = "NAME=VALUE behind the URL sends JSON, with --form a form, and --body FILE a file"

    private static let ofGet: [String: String] = [
        "-t": "--retry N", "-O": "a file has its name from the URL without it; -o FILE names one",
        "--remote-name": "a file has its name from the URL without it",
        "--remote-name-all": "a file has its name from the URL without it", "--output-document": "-o FILE",
        "--output-dir": "-d DIR", "--create-dirs": "directories are made without it", "-P": "-d DIR",
        "--directory-prefix": "-d DIR", "--dir": "-d DIR", "--out": "-o FILE",
        "--content-disposition": "-J takes the server's names", "-C": "an interrupted download goes on without it",
        "--continue-at": "an interrupted download goes on without it",
        "--continue": "an interrupted download goes on without it",
        "--split": "-s N", "--max-connection-per-server": "-s N", "--max-concurrent-downloads": "-j N",
        "--max-download-limit": "--limit-rate-each RATE", "--max-overall-download-limit": "--limit-rate RATE",
        "--max-threads": "-j N", "--random-wait": "--wait 1-3 waits from 1 to 3 seconds",
        "-w": "--wait SECONDS waits between starts, and --json has the status and the times",
        "--server-response": "-v prints what is received", "--input-metalink": "-i FILE takes a Metalink, too",
        "--metalink-file": "-i FILE takes a Metalink, too", "-M": "-i FILE takes a Metalink, too",
        "-X": sending, "--request": sending, "--data": sending, "--data-raw": sending, "--data-binary": sending,
        "--data-urlencode": sending, "--json-data": sending, "-F": sending, "--form": sending, "--post-data": sending,
        "--post-file": sending, "--method": sending, "--body-data": sending, "-G": sending,
        "--upload-file": sending, "-K": "the options that are always there are in ~/.config/convoy/config.json",
        "--recursive": "pages are not searched for links", "-p": "pages are not searched for links",
        "--mirror-site": "pages are not searched for links", "-b": "it stays in the foreground; use & or nohup",
        "--background": "it stays in the foreground; use & or nohup",
        "--allow-overwrite": "-f", "--auto-file-renaming": "--number", "-nc": "-c",
        "--no-clobber-files": "-c", "--if-modified-since": "-N", "-z": "-N asks for what is newer",
        "--time-cond": "-N asks for what is newer", "-R": "files have the server's time without it",
        "--remote-time": "files have the server's time without it", "-g": "brackets in URLs mean nothing without it",
        "--globoff": "brackets in URLs mean nothing without it", "--url": "a URL is an argument",
        "--quota": "there is no limit for all together", "-Q": "there is no limit for all together",
        "--post301": sending, "-U": "-A TEXT", "--etag-save": "-N keeps entity tags with the files",
        "--etag-compare": "-N keeps entity tags with the files", "--max-filesize": "there is no limit for a file",
    ]
}
