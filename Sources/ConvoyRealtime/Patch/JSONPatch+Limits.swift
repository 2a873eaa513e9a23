extension JSONPatch {
    /// How much larger and deeper a patch may make a document. A few short operations that copy would otherwise double it
    /// until no memory is left.
    public struct Limits: Sendable, Hashable {
        /// How many bytes the text of all that is copied, or moved to a deeper place, may have together. 64 MiB by default.
        /// What the operations themselves bring along does not count.
        public var maximumCopiedLength: Int
        /// How deep arrays and objects may be nested where the patch puts something. 512 by default, as in the parser.
        public var maximumDepth: Int

        /// Limits; each has a default.
        public init(maximumCopiedLength: Int = 64 << 20, maximumDepth: Int = 512) {
            self.maximumCopiedLength = maximumCopiedLength
            self.maximumDepth = maximumDepth
        }

        /// The default limits.
        public static let standard = Limits()
    }
}
