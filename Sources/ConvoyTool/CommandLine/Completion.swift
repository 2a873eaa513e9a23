enum Completion {
    static func script(_ options: Options) throws(ToolError) -> String { "" }
}
enum Manual { static var text: String { "" } }
