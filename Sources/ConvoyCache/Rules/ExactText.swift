import Foundation

/// Compares texts by their bytes.
///
/// `==` takes texts for equal that Unicode takes for equal, such as a letter with an accent in one character and in two.
/// To a server they are different addresses, entity tags and values.
enum ExactText {
    static func equal(_ one: some StringProtocol, _ other: some StringProtocol) -> Bool {
        let (one, other) = (one.utf8, other.utf8)
        guard one.count == other.count else { return false }
        let isEqual = one.withContiguousStorageIfAvailable { one in
            other.withContiguousStorageIfAvailable { other in
                guard let left = one.baseAddress, let right = other.baseAddress else { return true }
                return memcmp(left, right, one.count) == 0
            }
        }
        if case .some(.some(let isEqual)) = isEqual { return isEqual }
        return one.elementsEqual(other)
    }

    static func equal(_ one: String?, _ other: String?) -> Bool {
        switch (one, other) {
        case (nil, nil): true
        case (let one?, let other?): equal(one, other)
        default: false
        }
    }
}
