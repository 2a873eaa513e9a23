import Foundation

/// Which file it is, whatever its name.
package struct FileIdentity: Equatable {
    private let device: dev_t
    private let number: ino_t
    /// Whether it is a plain file that has one name.
    package let isPlain: Bool

    /// The file that is open; nil if the system does not say.
    package init?(_ descriptor: Int32) {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        self.init(information)
    }

    /// What has the name, links not followed; nil for nothing.
    package init?(_ path: String) {
        var information = stat()
        guard lstat(path, &information) == 0 else { return nil }
        self.init(information)
    }

    private init(_ information: stat) {
        (device, number) = (information.st_dev, information.st_ino)
        isPlain = information.st_mode & S_IFMT == S_IFREG && information.st_nlink == 1
    }
}
