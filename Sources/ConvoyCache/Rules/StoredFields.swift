import ConvoySupport

/// Which fields of a response are stored, updated and served.
///
/// `Set-Cookie` is stored and served as any other field, as RFC 9111 has it: the head is that of the response. Who
/// keeps cookies takes them from the network's responses only, so that an old response does not bring back an old
/// cookie. `Clear-Site-Data` is stored and served, and clears nothing here.
enum StoredFields {
    /// The fields of a response that are stored: all but those that concern the connection or a proxy (RFC 9111,
    /// section 3.1). A response without a `Date` gets one (RFC 9110, section 6.6.1).
    static func stored(_ fields: Fields, arrival: Int64) -> Fields {
        // A set: a hostile server can name thousands of fields, and send thousands.
        let named = Set(fields.members("connection").map { FieldNames.lowercased($0) })
        var stored = fields.filter { field in
            !isOfConnection(field.name)
                && (named.isEmpty || !named.contains(FieldNames.lowercased(field.name)))
        }
        if !stored.contains("date") { stored.append(("Date", HTTPDate.string(arrival))) }
        return stored
    }

    /// The stored fields, updated by those of a 304 or of a response to HEAD (section 3.2).
    static func updated(_ old: Fields, by new: Fields, arrival: Int64) -> Fields {
        let update = stored(new, arrival: arrival).filter { !describesBody($0.name) }
        let names = Set(update.map { FieldNames.lowercased($0.name) })
        // An age that the origin no longer states was that of the earlier response.
        let kept = old.filter { field in
            !FieldNames.matches(field.name, "age") && !names.contains(FieldNames.lowercased(field.name))
        }
        return kept + update
    }

    private static func isOfConnection(_ name: String) -> Bool {
        switch name.utf8.count {
        case 2: FieldNames.matches(name, "te")
        case 7: FieldNames.matches(name, "trailer") || FieldNames.matches(name, "upgrade")
        case 10: FieldNames.matches(name, "connection") || FieldNames.matches(name, "keep-alive")
        case 16: FieldNames.matches(name, "proxy-connection")
        case 17: FieldNames.matches(name, "transfer-encoding")
        case 18: FieldNames.matches(name, "proxy-authenticate")
        case 19: FieldNames.matches(name, "proxy-authorization")
        case 25: FieldNames.matches(name, "proxy-authentication-info")
        default: false
        }
    }

    /// Whether a field says how the stored bytes are to be read, which no other response can change.
    private static func describesBody(_ name: String) -> Bool {
        FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-encoding")
            || FieldNames.matches(name, "content-range")
    }
}
