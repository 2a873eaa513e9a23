import ConvoySupport

extension TestServer {
    /// Header fields in their order on the wire. Duplicates are kept.
    ///
    /// Names are case-insensitive (RFC 9110 section 5.1), and sent exactly as written. Nothing is checked or escaped,
    /// so that a test can send what a broken server would send.
    public struct Headers: Hashable, Sendable, ExpressibleByDictionaryLiteral, CustomStringConvertible {
        /// One line of a header section.
        public struct Field: Hashable, Sendable {
            /// The name as written.
            public var name: String
            /// The value, without surrounding whitespace.
            public var value: String

            /// A field of this name and value.
            public init(name: String, value: String) {
                self.name = name
                self.value = value
            }
        }

        /// All fields, in order.
        public var fields: [Field]

        /// Fields in this order.
        public init(_ fields: [Field] = []) {
            self.fields = fields
        }

        /// Fields in the order of the literal; a name may occur more than once.
        public init(dictionaryLiteral elements: (String, String)...) {
            fields = elements.map { Field(name: $0.0, value: $0.1) }
        }

        /// The first value of this name. Setting replaces every field of that name; nil removes them.
        public subscript(name: String) -> String? {
            get {
                for field in fields where HTTPSyntax.isSameField(field.name, name) { return field.value }
                return nil
            }
            set {
                let position = fields.firstIndex { HTTPSyntax.isSameField($0.name, name) }
                guard let newValue else { return fields.removeAll { HTTPSyntax.isSameField($0.name, name) } }
                guard let position else { return add(name, newValue) }
                fields[position].value = newValue
                let rest = fields[(position + 1)...].filter { !HTTPSyntax.isSameField($0.name, name) }
                fields.replaceSubrange((position + 1)..., with: rest)
            }
        }

        /// Every value of this name, in order.
        public func values(for name: String) -> [String] {
            fields.filter { HTTPSyntax.isSameField($0.name, name) }.map(\.value)
        }

        /// Adds a field after the others, even if there is one with that name already.
        public mutating func add(_ name: String, _ value: String) {
            fields.append(Field(name: name, value: value))
        }

        public var description: String {
            fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        }

        /// The elements of a comma-separated list (RFC 9110 section 5.6.1) over all fields of this name, in lower case.
        func tokens(_ name: String) -> [String] {
            values(for: name).flatMap { $0.split(separator: ",") }.map { HTTPSyntax.trimmed($0).lowercased() }
        }
    }
}
