import CEpoll
import Foundation

/// The identity of a file, independent of its name.
package struct FileIdentity: Equatable {
    private let device: dev_t
    private let number: ino_t
    package let isRegular: Bool
    /// Whether it is a regular file with one name.
    package let isPlain: Bool
    /// Whether it is this user's, or root's.
    package let isOwn: Bool
    /// What of it cannot be trusted, as a private file; nil if nothing.
    package let flaw: FileFlaw?

    /// The identity of an open file; nil if the system does not tell.
    package init?(_ descriptor: Int32) {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        self.init(information)
    }

    /// The identity of the file at a path, without following links; nil if there is none.
    package init?(_ path: String) {
        var information = stat()
        guard lstat(path, &information) == 0 else { return nil }
        self.init(information)
    }

    private init(_ information: stat) {
        (device, number) = (information.st_dev, information.st_ino)
        isRegular = information.st_mode & S_IFMT == S_IFREG
        isPlain = isRegular && information.st_nlink == 1
        isOwn = information.st_uid == geteuid() || information.st_uid == 0
        flaw = FileFlaw(ofFile: information)
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.device == other.device && one.number == other.number
    }

    /// What tells an open file from every other one on its disk, also after the disk was attached again, and that no one
    /// who only writes files can know beforehand: its number, and when it was made; or else its device, where the file
    /// system does not tell the time. nil if the system does not tell.
    package static func mark(of descriptor: Int32) -> String? {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        let time = cepoll_birth_time(descriptor)
        return "\(information.st_ino) \(time != 0 ? "made \(time)" : "on \(information.st_dev)")"
    }
}
