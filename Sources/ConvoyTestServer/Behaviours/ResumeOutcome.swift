/// What can come of a download that was paused in its middle and resumed.
public enum ResumeOutcome: String, CaseIterable, Sendable, Codable {
    /// A success with the right bytes, the rest appended to what was there.
    case appended
    /// A success with the right bytes, all from an answer that began with the first one.
    case startedOver
    /// An error.
    case failed
}
