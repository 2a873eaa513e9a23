extension Unicode.Scalar {
    /// Whether a terminal or a file manager obeys the scalar instead of showing it: control characters, line separators,
    /// and characters that change the direction of text, as `U+202E` does to show `gpj.exe` as `exe.jpg`.
    package var controlsDisplay: Bool {
        switch value {
        case 0...0x1F, 0x7F...0x9F, 0x2028, 0x2029: true
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        case 0xFEFF, 0xFFF9...0xFFFB, 0xE0000...0xE007F: true
        default: false
        }
    }
}
