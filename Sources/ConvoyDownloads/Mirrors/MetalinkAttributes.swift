/// The attributes of an element.
struct MetalinkAttributes {
    let line: Int
    private let element: String
    private let values: [String: String]

    init(_ element: String, _ values: [String: String], _ line: Int) {
        self.element = element
        self.values = values
        self.line = line
    }

    subscript(name: String) -> String? { values[name] }

    func required(_ name: String) throws(MetalinkError) -> String {
        guard let value = values[name] else {
            throw .missingAttribute(element: element, attribute: name, line: line)
        }
        return value
    }

    /// The beginning of a text, for an error.
    static func shown(_ text: some Collection<UInt8>) -> String { String(decoding: text.prefix(100), as: UTF8.self) }
}
