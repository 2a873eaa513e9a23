/// Finds the position of an object in a list by its identity.
///
/// Holds positions only, in a quarter of the memory of a dictionary. The hash need not resist attackers, who cannot
/// choose addresses. The position of an object that was removed from the list stays until the table is rebuilt, and
/// matches nothing.
struct PositionTable {
    private var cells: [Int32] = []
    private var count = 0

    init() {}

    /// Makes a table with room for three times as many objects, so that it is rarely rebuilt.
    init(for expected: Int) {
        var size = 32
        while size < expected * 6 { size *= 2 }
        cells = Array(repeating: -1, count: size)
    }

    var isEmpty: Bool { count == 0 }
    var hasRoom: Bool { (count + 1) * 2 <= cells.count }

    /// - Precondition: there is room.
    mutating func insert(_ position: Int, for object: AnyObject) {
        var cell = first(object)
        while cells[cell] >= 0 { cell = (cell + 1) & (cells.count - 1) }
        cells[cell] = Int32(position)
        count += 1
    }

    func position(of object: AnyObject, matches: (Int) -> Bool) -> Int? {
        var cell = first(object)
        while cells[cell] >= 0 {
            if matches(Int(cells[cell])) { return Int(cells[cell]) }
            cell = (cell + 1) & (cells.count - 1)
        }
        return nil
    }

    private func first(_ object: AnyObject) -> Int {
        // The low bits of an address are always 0, because of alignment; the multiplication mixes the others.
        let bits = UInt64(UInt(bitPattern: ObjectIdentifier(object))) >> 4
        return Int(truncatingIfNeeded: (bits &* 0x9E37_79B9_7F4A_7C15) >> 32) & (cells.count - 1)
    }
}
