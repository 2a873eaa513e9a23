/// The options that are always there, from `~/.config/convoy/config.json`.
enum Configuration {
    static func read() throws(ToolError) -> [String: [String]] { [:] }
}
