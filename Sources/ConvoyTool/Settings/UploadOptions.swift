import ConvoyUploads

/// The options of `convoy put` and `convoy s3 put`.
enum UploadOptions {
    /// Returns the value of `--resume`.
    static func resumption(_ options: Options) throws(ToolError) -> UploadResumption {
        switch try options.choice("resume") {
        case "always": .resumeOrRestart
        case "never": .restart
        case "strict": .resume
        default: .resumeUnlessChanged
        }
    }

    /// Returns the values of `--metadata` by their names. If a name is given twice, the last value is used.
    static func metadata(_ options: Options) throws(ToolError) -> [String: String] {
        var metadata: [String: String] = [:]
        for text in options.all("metadata") {
            let words = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard words.count == 2, !words[0].isEmpty else { throw options.usage("--metadata takes NAME=VALUE") }
            metadata[String(words[0])] = String(words[1])
        }
        return metadata
    }
}
