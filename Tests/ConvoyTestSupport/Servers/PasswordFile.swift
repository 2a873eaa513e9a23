import Foundation

/// Files of users and passwords as servers read them. They are made by the program `openssl`.
enum PasswordFile {
    /// For Basic authentication, in the format of `htpasswd`: passwords are hashed by Apache's variant of MD5.
    static func basic(_ users: [String: String]) throws -> Data {
        try file(users) { user, password in
            let result = try ProcessRunner.run("openssl", ["passwd", "-apr1", "-stdin"], input: Data("\(password)\n".utf8))
            return "\(user):\(result.text.trimmingCharacters(in: .newlines))"
        }
    }

    /// For Digest authentication, in the format of `htdigest`: user, realm and password are hashed by MD5.
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
    /// Makes the directory readable for all users: servers that are started by root read its files as another user.
    func open() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url.path)
    }
}
