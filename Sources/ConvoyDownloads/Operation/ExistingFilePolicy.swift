/// What a download does where a file has its name already.
public enum ExistingFilePolicy: Sendable, Hashable, Codable {
    /// It fails with ``DownloadError/fileExists(_:)``, before anything is sent where the name is known by then.
    case fail
    /// It succeeds without sending anything, and the file stays as it is.
    case skip
    /// It asks for the file only if it has changed since (RFC 9110, section 13): with the entity tag and the date that were
    /// stored with the file, or with the time when the file was last modified. If not, it succeeds, and the file stays.
    case revalidate
    /// It replaces the file, at the moment when the new one is whole.
    case replace
    /// It goes on with the file, as `wget -c` does, but only where its bytes can be proven: by the user's checksum, or by a
    /// digest of the whole that the server tells when it is asked by a HEAD. Otherwise the whole is fetched, and replaces the
    /// file when it is whole. A file that has the checksum, or without one is as long as the server's, stays as it is.
    case resume
}

/// What a download that succeeded has done.
public enum DownloadOutcome: Sendable, Hashable {
    /// The file was fetched.
    case downloaded
    /// There was a file, and it was left as it is.
    case skipped
    /// The server says that the file that was there has not changed.
    case notModified
}
