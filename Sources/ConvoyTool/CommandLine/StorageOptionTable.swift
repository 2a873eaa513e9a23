/// The options of `convoy s3` that no other command has.
extension OptionTable {
    static let storage: [ToolOption] = [
        .value(
            "endpoint", nil, "URL", in: .storage, of: [.storage], "the service (default: Amazon S3)",
            """
            Overrides the variables AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL, and endpoint_url in the profile. For other \
            servers than Amazon's: https://storage.example.com, without the bucket.
            """),
        .value(
            "region", nil, "REGION", in: .storage, of: [.storage], "the region (default: us-east-1)",
            "Overrides the variables AWS_REGION and AWS_DEFAULT_REGION, and region in the profile."),
        .value(
            "profile", nil, "NAME", in: .storage, of: [.storage], "use this profile of ~/.aws",
            """
            The files are ~/.aws/credentials and ~/.aws/config; AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE override \
            their paths. A profile has keys or a credential_process. Without this option, the variables AWS_ACCESS_KEY_ID, \
            AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN take precedence over the profile AWS_PROFILE, or default.
            """),
        .value(
            "credential-command", nil, "COMMAND", in: .storage, of: [.storage], "run COMMAND, which prints credentials",
            """
            /bin/sh runs COMMAND, and its output is JSON, as of a credential_process: Version (1), AccessKeyId, \
            SecretAccessKey, and optionally SessionToken and Expiration. It must end within 60 seconds.
            """),
        .value(
            "addressing", nil, "STYLE", completes: .oneOf(["auto", "path", "virtual"]), in: .storage, of: [.storage],
            "the bucket in URLs: auto, path, virtual",
            "With virtual, the bucket is part of the host name. auto, the default, selects that for Amazon's endpoints."),
        .value(
            "body-checksum", nil, "FIELD", completes: .oneOf(["sha256", "md5", "none"]), in: .storage, of: [.storage],
            "sent with bodies: sha256, md5, none",
            """
            The server verifies bodies by this checksum (default: sha256). md5 and none are for servers that do not \
            support sha256.
            """),
        .value(
            "part-size", nil, "BYTES", in: .storage, of: [.storage], "upload in parts of BYTES (default: 16Mi)",
            "At least 5Mi. A larger file is sent in parts, and its upload can be resumed."),
        .value(
            "parallel", nil, "N", in: .storage, of: [.storage], "concurrent parts of a file (default: 4)",
            "1 to 64."),
        .value(
            "content-type", nil, "TYPE", in: .storage, of: [.storage], once: true, "put: the media type of the objects",
            "By default, that of the file's extension."),
        .value(
            "metadata", nil, "NAME=VALUE", in: .storage, of: [.storage], repeats: true, once: true,
            "put: store this metadata with the objects", "Sent as x-amz-meta-NAME. VALUE must be ASCII."),
        .value(
            "if-match", nil, "TAG", in: .storage, of: [.storage], once: true,
            "only if the object has this entity tag", "get, and put of one file. list --json prints entity tags."),
        .value(
            "if-none-match", nil, "TAG|*", in: .storage, of: [.storage], once: true,
            "get: if it has another; put: *, if it is new",
            "With put, * is the only value: an existing object is not replaced, and the exit status is 7."),
    ]

    static let storageFiles: [ToolOption] = [
        .flag(
            "recursive", "r", in: .files, of: [.storage], once: true, "list, remove: all objects below the prefix",
            """
            Without it, list prints the part of a key up to the next slash only once. remove removes the objects whose keys \
            begin with the given one and a slash.
            """),
        .flag(
            "delete", nil, in: .files, of: [.storage], once: true, "sync: remove files missing from the source",
            """
            Files and objects are removed after everything has been copied without a failure. Excluded ones are kept.
            """),
        .value(
            "exclude", nil, "GLOB", in: .files, of: [.storage], repeats: true, once: true,
            "sync: ignore files whose path matches: '*.tmp'",
            "The path is relative to the directory, and * also matches slashes."),
        .value(
            "include", nil, "GLOB", in: .files, of: [.storage], repeats: true, once: true,
            "sync: only files whose path matches"),
    ]
}
