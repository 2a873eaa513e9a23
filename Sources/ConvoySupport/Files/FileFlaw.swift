import Foundation

/// Why a file or a directory cannot be trusted: another user has prepared it, or can change it.
package enum FileFlaw: Error, Hashable, Sendable {
    /// It is neither this user's nor root's.
    case otherOwner(UInt32)
    /// Its group, or everybody, may write to it.
    case writableByOthers(mode: UInt32)
    /// It has another name, too, so that a change to it changes what is there.
    case hardLinked
    /// A link that another user has made leads to it.
    case linkOfOther(UInt32)
    /// It is a link.
    case link
    case notRegularFile
    case notDirectory

    /// What is wrong, and what to do about it.
    package var reason: String {
        switch self {
        case .otherOwner(let user):
            "It belongs to another user (uid \(user)), who may have prepared it. Remove it, or choose another place."
        case .writableByOthers(let mode):
            "Other users can write to it (mode \(Self.digits(mode))). Check what is in it, and take that away: chmod go-w."
        case .hardLinked: "It has another name, too (a hard link). Replace it by a copy."
        case .linkOfOther(let user): "It is a link that another user has made (uid \(user))."
        case .link: "It is a link."
        case .notRegularFile: "It is no regular file."
        case .notDirectory: "It is no directory."
        }
    }

    private static func digits(_ mode: UInt32) -> String { "0" + String(mode & 0o7777, radix: 8) }

    // MARK: Judging

    /// What is wrong with a file by what the system says of it; nil if nothing is.
    ///
    /// - Parameter user: whose files, beside root's, are trusted.
    package init?(ofFile facts: stat, user: uid_t = geteuid()) {
        guard facts.st_mode & S_IFMT == S_IFREG else {
            self = facts.st_mode & S_IFMT == S_IFLNK ? .link : .notRegularFile
            return
        }
        if let flaw = FileFlaw(ofOwner: facts, user) {
            self = flaw
        } else if facts.st_mode & (S_IWGRP | S_IWOTH) != 0 {
            self = .writableByOthers(mode: UInt32(facts.st_mode))
        } else if facts.st_nlink > 1 {
            // One that was removed meanwhile has no name at all, which is no danger.
            self = .hardLinked
        } else {
            return nil
        }
    }

    /// What is wrong with a directory in which private files are to be; nil if nothing is.
    ///
    /// - Parameter allowsShared: whether it may be one like `/tmp`, which others may write to but whose entries only their
    ///   owners can rename and remove. Each entry is judged by itself there.
    init?(ofDirectory facts: stat, allowsShared: Bool, user: uid_t = geteuid()) {
        guard facts.st_mode & S_IFMT == S_IFDIR else {
            self = facts.st_mode & S_IFMT == S_IFLNK ? .link : .notDirectory
            return
        }
        if let flaw = FileFlaw(ofOwner: facts, user) {
            self = flaw
        } else if facts.st_mode & (S_IWGRP | S_IWOTH) != 0, !allowsShared || facts.st_mode & S_ISVTX == 0 {
            self = .writableByOthers(mode: UInt32(facts.st_mode))
        } else {
            return nil
        }
    }

    private init?(ofOwner facts: stat, _ user: uid_t) {
        guard facts.st_uid != user, facts.st_uid != 0 else { return nil }
        self = .otherOwner(facts.st_uid)
    }

    /// What is wrong with a link, if there is one at a path; nil if there is none, or if it is this user's or root's.
    init?(ofLinkAt path: String, user: uid_t = geteuid()) {
        var facts = stat()
        guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFLNK, facts.st_uid != user, facts.st_uid != 0 else {
            return nil
        }
        self = .linkOfOther(facts.st_uid)
    }
}
