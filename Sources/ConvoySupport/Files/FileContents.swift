import Foundation

/// Reads whole files.
package enum FileContents {
    /// Why a file cannot be read.
    package enum Failure: Error, Hashable, Sendable {
        case system(SystemError)
        /// It has more bytes than this.
        case tooLarge(limit: Int)

        /// A few words.
        package var reason: String {
            switch self {
            case .system(let error): error.text
            case .tooLarge(let limit): "It is larger than \(limit >> 20) MiB."
            }
        }
    }

    /// All bytes of an open file, from where it stands. Blocks.
    ///
    /// - Parameter limit: in bytes.
    package static func read(_ descriptor: Int32, limit: Int) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { return bytes }
            if count < 0 {
                let error = SystemError()
                if error.code == EINTR { continue }
                throw .system(error)
            }
            bytes += buffer[..<count]
            guard bytes.count <= limit else { throw .tooLarge(limit: limit) }
        }
    }
}
