import Convoy

/// The parts of the manual page that no table has.
enum ManualTexts {
    static func addDescription(to page: inout Roff) {
        page.section("DESCRIPTION")
        page.paragraph(
            """
            convoy get downloads URLs, several at a time. A URL without a scheme is https. A file is written beside its \
            place and gets its name when it is whole, so that what has the name is never half a file. When a run was \
            interrupted, the same command goes on with what is there, if the server still has the same file; otherwise \
            it begins anew. A file that is there is an error, and nothing is sent for it, unless --continue, \
            --no-clobber, --timestamping or --force says what to do.
            """)
        page.paragraph(
            """
            convoy put uploads files to a server of tus 1.0 or of the IETF's draft of resumable uploads, and to others by one PUT \
            each. The server is asked how much it has, and what was interrupted goes on from there when the same command runs \
            again. A file that has changed meanwhile is an error before a byte of it is sent; --resume never begins anew.
            """)
        page.paragraph(
            """
            convoy run runs the requests of a manifest: some wait for others, whose values they take, and those that do not \
            run at the same time. convoy check only looks for mistakes in it, convoy send sends one request by hand, and \
            convoy import prints the manifest for a curl command or an HTTP Archive.
            """)
    }

    static func addEnvironment(to page: inout Roff) {
        page.section("ENVIRONMENT")
        let rows: [(names: [String], text: String)] = [
            (
                ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
                "The proxies for http, for https, and for both. --proxy takes their place."
            ),
            (["no_proxy", "NO_PROXY"], "The hosts that those are not for: names, addresses and networks; * for all."),
            (["HOME", "XDG_CONFIG_HOME"], "Where the configuration is, see CONFIGURATION."),
            (["NETRC"], "The file of --netrc, in place of ~/.netrc."),
            (["SSL_CERT_FILE"], "The certificates that are trusted in place of the system's, unless --cacert is given."),
            (["NO_COLOR"], "If it is not empty, nothing is in color, unless --color always is given."),
            (["TERM"], "If it is empty or dumb, there are no bars and no color."),
            (
                ["LC_ALL", "LC_CTYPE", "LANG"],
                "Bars and marks are drawn in Unicode if the first that is not empty names UTF-8."
            ),
        ]
        for row in rows { page.term(row.names.map(Roff.bold).joined(separator: ", "), row.text) }
    }

    static func addFiles(to page: inout Roff) {
        page.section("FILES")
        let rows: [(name: String, text: String)] = [
            ("~/.config/convoy/config.json", "The configuration."),
            ("~/.netrc", "Logins, for --netrc. Nobody else may be able to read it."),
            ("NAME.convoypart", "What is there of the file NAME, which is not whole yet."),
            (
                "NAME.convoyjournal",
                """
                What is known of it: from where it comes, and which parts are there. Without it, the download begins anew. \
                Both can be removed when nothing is to go on.
                """
            ),
            ("NAME.convoynew", "What is there of a newer file, while NAME.convoypart still has more of the older one."),
            (
                "NAME.ID.convoyupload",
                """
                Where a server has the upload of NAME, which is not whole yet, and how much of it. It has no secrets, and can be \
                removed when nothing is to go on.
                """
            ),
            (
                "convoy-urls.txt",
                "The URLs of a run that was interrupted, where there were too many for a line that goes on."
            ),
            ("NAME.part", "An output of a manifest while it is being written."),
            (
                ".MANIFEST.convoyrun",
                """
                In the directory of the outputs: which requests of a manifest have succeeded, for --resume. It has no \
                secrets, and can be removed.
                """
            ),
        ]
        for row in rows { page.term(Roff.italic(row.name), row.text) }
    }

    static func addExamples(to page: inout Roff) {
        page.section("EXAMPLES")
        let examples: [(text: String, lines: [String])] = [
            (
                "Download a file, four parts at a time, and check it:",
                [
                    "convoy get -s 4 --checksum sha-256=b94f6f125c79e3a5... \\",
                    "  https://example.com/disk.iso",
                ]
            ),
            (
                "Download what a list names; run it again to go on, or to get what is missing:",
                ["convoy get -c -d pictures -i list.txt"]
            ),
            (
                "Upload a file in parts; run it again to go on:",
                ["convoy put --tus --parallel 4 film.mkv https://example.com/files/"]
            ),
            ("Look at a response:", ["convoy get -q -o - https://example.com/status"]),
            ("Get what has changed since the last time, from cron:", ["convoy get -q -N -d mirror -i list.txt"]),
            ("See what a manifest would send:", ["convoy run --dry-run requests.json"]),
            (
                "Which files failed, and why:",
                ["convoy get --json -i list.txt | jq 'select(.error) | {url, error, errorCode}'"]
            ),
        ]
        for example in examples {
            page.paragraph(example.text)
            page.example(example.lines)
        }
    }
}
