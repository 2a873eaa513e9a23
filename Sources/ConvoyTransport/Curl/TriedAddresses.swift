import ConvoySecurity

/// What became of the addresses to which libcurl wanted to connect for a transfer.
struct TriedAddresses {
    /// How many were connected to, or were at least tried.
    var openedCount = 0
    /// The first that was refused.
    var firstRefusal: AddressRefusal?
    /// The refusal of a connection that was already there.
    var refusalOfConnection: AddressRefusal?

    /// The system's last error about the source of a connection; 0 for none.
    var bindError: Int32 = 0

    /// Why the transfer could not begin; nil if that is not because of a refused address. Where others could be tried,
    /// their failure counts.
    var refusal: AddressRefusal? {
        refusalOfConnection ?? (openedCount == 0 && bindError == 0 ? firstRefusal : nil)
    }
}
