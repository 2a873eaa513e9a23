/// A value that is bound to a parameter of a statement.
package enum DatabaseValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    package static func integer(_ value: Int64?) -> DatabaseValue { value.map { .integer($0) } ?? .null }
    package static func text(_ value: String?) -> DatabaseValue { value.map { .text($0) } ?? .null }
    package static func blob(_ value: [UInt8]?) -> DatabaseValue { value.map { .blob($0) } ?? .null }
}

extension DatabaseValue: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral, ExpressibleByNilLiteral {
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(stringLiteral value: String) { self = .text(value) }
    package init(nilLiteral: ()) { self = .null }
}
