/// What is found out about a tree before it is put into another, or written.
package enum JSONExtent: Equatable {
    /// So many bytes of text, without whitespace.
    case bytes(Int)
    /// Arrays and objects are nested deeper than the limit.
    case tooDeep
    /// The text is longer than the limit.
    case tooLong
}

extension JSON {
    /// How long the text of the tree is. It looks at no more of the tree than the limits allow.
    package func extent(maximumDepth: Int = .max, maximumLength: Int = .max) -> JSONExtent {
        var meter = Meter(maximumLength: maximumLength)
        meter.add(self, levels: maximumDepth)
        if meter.isTooDeep { return .tooDeep }
        return meter.length > maximumLength ? .tooLong : .bytes(meter.length)
    }

    private struct Meter {
        let maximumLength: Int
        var length = 0
        var isTooDeep = false

        mutating func add(_ value: JSON, levels: Int) {
            switch value {
            case .null: length += 4
            case .bool(let value): length += value ? 4 : 5
            case .number(let number): length += number.text.utf8.count
            case .string(let text): length += JSONOutput.quotedLength(of: text)
            case .array(let elements):
                guard open(elements.count, levels) else { return }
                for element in elements {
                    add(element, levels: levels - 1)
                    if isTooDeep || length > maximumLength { return }
                }
            case .object(let object):
                guard open(object.members.count, levels) else { return }
                for member in object.members {
                    length += JSONOutput.quotedLength(of: member.key) + 1
                    add(member.value, levels: levels - 1)
                    if isTooDeep || length > maximumLength { return }
                }
            }
        }

        /// Counts the brackets and the commas.
        private mutating func open(_ count: Int, _ levels: Int) -> Bool {
            if levels <= 0 { isTooDeep = true }
            length += 2 + max(0, count - 1)
            return !isTooDeep && length <= maximumLength
        }
    }
}
