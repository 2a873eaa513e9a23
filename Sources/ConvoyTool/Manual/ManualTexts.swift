import Convoy

/// The parts of the manual page that are not generated from tables.
enum ManualTexts {
    static func addDescription(to page: inout Roff) {
        page.section("DESCRIPTION")
        page.paragraph(
            """
            convoy get downloads URLs concurrently. URLs without a scheme use https, or http on this machine. Each file is written under a temporary \
            name and gets its own name only when complete, so a file under that name is never partial. After an interrupted \
            run, the same command resumes the downloads if the server still has the same files; otherwise they restart from \
            the beginning. An existing file is an error, and nothing is sent for it, unless --continue, --no-clobber, \
            --timestamping or --force is given.
            """)
        page.paragraph(
            """
            convoy put uploads files to servers that support tus 1.0 or the IETF draft for resumable uploads, and to other \
            servers in one PUT each. After an interrupted run, the same command asks the server how much it has received \
            and resumes from there. If a file has changed in the meantime, the upload starts over; with --resume strict, it \
            fails before a byte is sent.
            """)
        page.paragraph(
            """
            convoy s3 copies files to and from Amazon S3 and compatible storage, where s3://BUCKET/KEY names an object. \
            Downloads and uploads are resumed as with get and put, and verified with the checksums of the server. sync \
            copies files that are missing from the target, or have another size or an older time there. Links are not \
            followed.
            """)
        page.paragraph(
            """
            convoy run runs the requests of a manifest. A request waits for the requests whose values it uses; independent \
            requests run concurrently. convoy check validates a manifest, convoy send sends a single request, and convoy \
            import prints the manifest for a curl command, an HTTP Archive, a file of Hurl, or a collection of Postman or \
            Bruno.
            """)
    }

    static func addEnvironment(to page: inout Roff) {
        page.section("ENVIRONMENT")
        let rows: [(names: [String], text: String)] = [
            (
                ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
                "The proxies for http, for https, and for both. --proxy takes precedence."
            ),
            (["no_proxy", "NO_PROXY"], "The hosts that bypass these proxies: names, addresses and networks; * for all."),
            (
                ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
                "The credentials of s3, unless --profile or --credential-command is given."
            ),
            (
                ["AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"],
                "The profile of s3, and the paths of its files."
            ),
            (
                ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
                "The region and the service of s3, unless --region and --endpoint are given."
            ),
            (
                ["XDG_STATE_HOME"],
                """
                The directory of the sessions of send, and of journals of uploads from directories that cannot be written \
                to, instead of ~/.local/state.
                """
            ),
            (["HOME", "XDG_CONFIG_HOME"], "The directories of the configuration file; see CONFIGURATION."),
            (["NETRC"], "The path of the file that --netrc reads instead of ~/.netrc."),
            (["SSL_CERT_FILE"], "The certificates to trust instead of the system's, unless --cacert is given."),
            (["NO_COLOR"], "If set and not empty, disables color, unless --color always is given."),
            (["TERM"], "If empty or \"dumb\", disables progress bars and color."),
            (
                ["LC_ALL", "LC_CTYPE", "LANG"],
                "Progress bars and marks use Unicode if the first non-empty variable specifies UTF-8."
            ),
        ]
        for row in rows { page.term(row.names.map(Roff.bold).joined(separator: ", "), row.text) }
    }

    static func addFiles(to page: inout Roff) {
        page.section("FILES")
        let rows: [(name: String, text: String)] = [
            ("~/.config/convoy/config.json", "The configuration."),
            ("~/.netrc", "The logins that --netrc reads. Other users must not be able to read the file."),
            ("NAME.convoypart", "The received part of the incomplete file NAME."),
            (
                "NAME.convoyjournal",
                """
                The state of the download: its origin and the parts received. Without it, the download restarts from the \
                beginning. Both files can be removed if the download is not to be resumed.
                """
            ),
            (
                "NAME.convoynew",
                "The received part of a newer file, until it is larger than the old part in NAME.convoypart."
            ),
            (
                "NAME.ID.convoyupload",
                """
                The location of the incomplete upload of NAME on the server, and how much of it was sent. It contains no \
                secrets and can be removed if the upload is not to be resumed. If no file can be created beside NAME, it is \
                in ~/.local/state/convoy/uploads.
                """
            ),
            (
                "convoy-urls.txt",
                "The URLs of an interrupted run, if they are too many for a printed command that resumes the run."
            ),
            ("NAME.part", "An output of a manifest while it is being written."),
            (
                ".MANIFEST.convoyrun",
                """
                In the output directory: the requests of a manifest that have succeeded, for --resume. It contains no \
                secrets and can be removed.
                """
            ),
        ]
        for row in rows { page.term(Roff.italic(row.name), row.text) }
    }

    static func addExamples(to page: inout Roff) {
        page.section("EXAMPLES")
        let examples: [(text: String, lines: [String])] = [
            (
                "Download a file in four concurrent parts and verify it:",
                [
                    "convoy get -s 4 --checksum sha-256=b94f6f125c79e3a5... \\",
                    "  https://example.com/disk.iso",
                ]
            ),
            (
                "Download the URLs in a list. Run the command again to resume, or to download missing files:",
                ["convoy get -c -d pictures -i list.txt"]
            ),
            (
                "Upload a file in parts. Run the command again to resume:",
                ["convoy put --tus --parallel 4 film.mkv https://example.com/files/"]
            ),
            (
                "Copy new and changed files of a directory to an S3-compatible server:",
                ["convoy s3 sync --endpoint https://storage.example.com photos s3://backup/photos"]
            ),
            ("Print a response:", ["convoy get -q -o - https://example.com/status"]),
            ("Download files that have changed since the last run, from cron:", ["convoy get -q -N -d mirror -i list.txt"]),
            ("Print the requests of a manifest without sending them:", ["convoy run --dry-run requests.json"]),
            (
                "List the failed files with their errors:",
                ["convoy get --json -i list.txt | jq 'select(.error) | {url, error, errorCode}'"]
            ),
        ]
        for example in examples {
            page.paragraph(example.text)
            page.example(example.lines)
        }
    }
}
