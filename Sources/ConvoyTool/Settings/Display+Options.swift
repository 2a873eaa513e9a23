/// The options for what is printed.
extension Display {
    /// A display as the options want it.
    ///
    /// - Parameter printsBodies: whether standard output gets the body of a response.
    convenience init(_ options: Options, printsBodies: Bool) throws(ToolError) {
        var style = Style()
        style.machineReadsOutput = options.has("json") || printsBodies
        style.printsBodies = printsBodies
        style.isQuiet = options.has("quiet")
        if options.has("json"), printsBodies { throw options.usage("--json and --output - both need standard output") }
        switch try options.choice("color") {
        case "always": style.colour = true
        case "never": style.colour = false
        default: break
        }
        switch try options.choice("progress") {
        case "none": style.showsBars = false
        case "plain": (style.showsBars, style.printsProgress) = (false, true)
        default: break
        }
        self.init(style)
        if Shown.secrets, !terminals.isEmpty {
            complain("warning: --show-secrets: passwords, cookies and tokens are printed as they are")
        }
    }
}
