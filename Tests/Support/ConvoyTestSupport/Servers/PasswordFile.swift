import Foundation

/// Files of users and passwords in the formats of servers, created with `openssl`.
enum PasswordFile {
    /// Returns a file for Basic authentication in the format of `htpasswd`, with passwords hashed by Apache's variant
    /// of MD5.
    static func basic(_ users: [String: String]) throws -> Data {
        try file(users) { user, password in
            let result = try ProcessRunner.run("openssl", ["passwd", "-apr1", "-stdin"], input: Data("\(password)\n".utf8))
            return "\(user):\(result.text.trimmingCharacters(in: .newlines))"
        }
    }

    /// Returns a file for Digest authentication in the format of `htdigest`, with MD5 hashes of user, realm and
    /// password.
    static func digest(_ users: [String: String], realm: String) throws -> Data {
        try file(users) { user, password in
            let secret = Data("\(user):\(realm):\(password)".utf8)
            let result = try ProcessRunner.run("openssl", ["dgst", "-md5", "-r"], input: secret)
            return "\(user):\(realm):\(result.text.prefix(32))"
        }
    }

    private static func file(_ users: [String: String], line: (String, String) throws -> String) throws -> Data {
        let lines = try users.sorted { $0.key < $1.key }.map { try line($0.key, $0.value) + "\n" }
        return Data(lines.joined().utf8)
    }
}

extension TemporaryDirectory {
    /// Makes the directory readable for all users, because servers that root has started read files as another user.
    func open() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url.path)
    }
}
