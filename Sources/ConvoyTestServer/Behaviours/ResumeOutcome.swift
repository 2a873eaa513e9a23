/// The possible outcomes of a download that was paused in the middle and resumed.
public enum ResumeOutcome: String, CaseIterable, Sendable, Codable {
    /// A success with the right bytes, with the rest appended to the first part.
    case appended
    /// A success with the right bytes, all from an answer that began at the first byte.
    case startedOver
    /// An error.
    case failed
}
