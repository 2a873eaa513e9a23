/// A type that may contain secrets. `dump` and `Mirror` show none of its stored properties.
package protocol OpaqueReflectable: CustomReflectable {
    /// The children of the mirror; empty by default.
    var shownChildren: KeyValuePairs<String, Any> { get }
}

extension OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> { [:] }

    /// A mirror without the stored properties, because they may contain secrets.
    public var customMirror: Mirror { Mirror(self, children: shownChildren, ancestorRepresentation: .suppressed) }
}
