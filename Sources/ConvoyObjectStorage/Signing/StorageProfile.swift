import ConvoySupport
import Foundation

/// A profile in the files of Amazon's tools: `~/.aws/credentials` and `~/.aws/config`.
///
/// The variables `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` override the paths, and `AWS_PROFILE` the name of the
/// profile, `default`.
package struct StorageProfile: Sendable {
    package let name: String
    /// The settings of both files by lowercase names; those in `~/.aws/credentials` take precedence. Nested settings have
    /// names such as `s3.addressing_style`.
    private let settings: [String: String]
    private let paths: [String]
    private static let maximumLength = 1 << 20

    /// Reads a profile. A missing file has no settings.
    ///
    /// - Parameters:
    ///   - name: The name; nil for that of `AWS_PROFILE`, or `default`.
    ///   - environment: The variables of the environment.
    /// - Throws: ``ObjectStorageError/Code/noCredentials`` if a file cannot be read, or the named profile does not exist.
    package init(
        _ name: String? = nil, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ObjectStorageError) {
        func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        func path(_ name: String, _ file: String) -> String? {
            let text = variable(name) ?? "~/.aws/\(file)"
            guard text.hasPrefix("~/") else { return text }
            return variable("HOME").map { PathText.join($0, String(text.dropFirst(2))) }
        }
        let named = name ?? variable("AWS_PROFILE")
        let wanted = named ?? "default"
        let paths = [path("AWS_CONFIG_FILE", "config"), path("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
        var settings: [String: String] = [:]
        var exists = false
        for (index, path) in paths.enumerated() {
            guard let path, let text = try Self.contents(of: path) else { continue }
            let sections = ProfileFile.sections(of: text)
            // In the configuration, the names of other profiles follow a keyword.
            let names = index == 0 && wanted != "default" ? ["profile \(wanted)"] : [wanted, "profile \(wanted)"]
            for section in names.compactMap({ sections[$0] }).prefix(1) {
                exists = true
                settings.merge(section) { $1 }
            }
            if index == 0, let services = settings["services"], let section = sections["services \(services)"] {
                settings.merge(section) { own, _ in own }
            }
        }
        guard exists || named == nil else {
            throw ObjectStorageError(
                .noCredentials,
                "The profile \(wanted.debugDescription) does not exist in \(Self.list(paths.compactMap(\.self))).")
        }
        self.name = wanted
        self.settings = settings
        self.paths = paths.compactMap(\.self)
    }

    /// The region, if any.
    package var region: String? { settings["region"] }
    /// The endpoint of S3, if any.
    package var endpoint: String? { settings["s3.endpoint_url"] ?? settings["endpoint_url"] }
    /// The addressing style: `path`, `virtual` or `auto`, if any.
    package var addressing: String? { settings["s3.addressing_style"] }

    /// Returns a provider of the profile's credentials: its keys, or those printed by its `credential_process`.
    ///
    /// - Throws: ``ObjectStorageError/Code/noCredentials`` if the profile has neither.
    package func provider() throws(ObjectStorageError) -> ObjectStorageCredentialProvider {
        if let key = settings["aws_access_key_id"], let secret = settings["aws_secret_access_key"] {
            let credentials = ObjectStorageCredentials(
                accessKeyID: key, secretAccessKey: secret, sessionToken: settings["aws_session_token"])
            return ObjectStorageCredentialProvider { credentials }
        }
        if let command = settings["credential_process"], !command.isEmpty { return .command(command) }
        let others = settings.keys.filter { $0.hasPrefix("sso_") || $0 == "role_arn" || $0 == "login_session" }
        guard let other = others.sorted().first else {
            throw ObjectStorageError(
                .noCredentials, "The profile \(name.debugDescription) in \(Self.list(paths)) has no credentials.")
        }
        throw ObjectStorageError(
            .noCredentials,
            "The profile \(name.debugDescription) uses \(other), which is not supported. Set its credential_process to "
                + "\"aws configure export-credentials --profile \(name)\".")
    }

    private static func list(_ paths: [String]) -> String { paths.joined(separator: " or ") }

    /// Returns the text of a file; nil if it does not exist.
    private static func contents(of path: String) throws(ObjectStorageError) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw ObjectStorageError(.noCredentials, "\(path): \(SystemError().text)")
        }
        defer { close(descriptor) }
        do throws(FileContents.Failure) {
            return String(decoding: try FileContents.read(descriptor, limit: maximumLength), as: UTF8.self)
        } catch {
            switch error {
            case .system(let cause): throw ObjectStorageError(.noCredentials, "\(path): \(cause.text)")
            case .tooLarge(let limit):
                throw ObjectStorageError(.noCredentials, "\(path) is larger than \(limit) bytes.")
            }
        }
    }
}

/// A parser for the files of Amazon's tools: sections in brackets, lines `name = value`, and indented lines with nested
/// settings of the name before them.
enum ProfileFile {
    /// Returns the settings by section. Lines of other forms are ignored, as Amazon's tools do.
    static func sections(of text: String) -> [String: [String: String]] {
        var sections: [String: [String: String]] = [:]
        var section: String?
        var parent: String?
        for line in text.split(whereSeparator: \.isNewline) {
            let content = line.trimmingCharacters(in: .whitespaces)
            guard let first = content.first, first != "#", first != ";" else { continue }
            if first == "[", let end = content.firstIndex(of: "]") {
                let words = content[content.index(after: content.startIndex)..<end].split(whereSeparator: \.isWhitespace)
                section = words.map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "\"'")) }.joined(separator: " ")
                parent = nil
                continue
            }
            guard let name = section, let sign = content.firstIndex(of: "=") else { continue }
            let key = content[..<sign].trimmingCharacters(in: .whitespaces).lowercased()
            var value = content[content.index(after: sign)...].trimmingCharacters(in: .whitespaces)
            if let comment = value.firstRange(of: " #") ?? value.firstRange(of: "\t#") {
                value = value[..<comment.lowerBound].trimmingCharacters(in: .whitespaces)
            }
            let isNested = line.first?.isWhitespace == true
            if !isNested { parent = value.isEmpty ? key : nil }
            guard !value.isEmpty, !isNested || parent != nil else { continue }
            sections[name, default: [:]][isNested ? "\(parent ?? "").\(key)" : key] = value
        }
        return sections
    }
}
