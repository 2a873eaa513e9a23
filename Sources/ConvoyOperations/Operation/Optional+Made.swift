extension Optional {
    /// The value; it is made first if there is none.
    mutating func made(by make: @autoclosure () -> Wrapped) -> Wrapped {
        if let value = self { return value }
        let value = make()
        self = value
        return value
    }
}
