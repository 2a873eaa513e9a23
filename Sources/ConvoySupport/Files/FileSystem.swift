import CEpoll
import Foundation

/// What is known of the file system of an open file.
package enum FileSystem {
    /// Whether it is on a local disk or in memory, so that writing does not wait for another program or another machine.
    package static func isLocal(_ descriptor: Int32) -> Bool { local.contains(type(of: descriptor)) }

    /// Whether reserving space is cheap there. In memory, it is filled with zeros.
    package static func reserves(_ descriptor: Int32) -> Bool {
        let type = type(of: descriptor)
        return local.contains(type) && type != tmpfs && type != ramfs
    }

    /// How many bytes are free, for users that are not root; nil if the system does not tell.
    package static func freeSpace(_ descriptor: Int32) -> Int64? {
        var information = statvfs()
        guard fstatvfs(descriptor, &information) == 0 else { return nil }
        let (bytes, isTooMany) = UInt64(information.f_bavail).multipliedReportingOverflow(by: UInt64(information.f_frsize))
        return isTooMany ? .max : Int64(clamping: bytes)
    }

    private static func type(of descriptor: Int32) -> UInt64 { UInt64(cepoll_file_system_type(descriptor)) }

    private static let tmpfs: UInt64 = 0x0102_1994
    private static let ramfs: UInt64 = 0x8584_58F6

    /// The magic numbers of `statfs(2)`: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ZFS, bcachefs.
    private static let local: Set<UInt64> = [
        0xEF53, 0x5846_5342, 0x9123_683E, tmpfs, ramfs, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E,
    ]
}
