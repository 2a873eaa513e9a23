import ConvoySerialization

/// Parses responses of the type `application/json-patch+json` as ``JSONPatch``. The counterpart of
/// `AFJSONPatchResponseSerializer` of AFNetworking 2.0.0's release candidates.
public typealias JSONPatchResponseSerializer = HTTPBodyResponseSerializer<JSONPatch>

/// Parses responses of the type `application/merge-patch+json` as ``JSONMergePatch``.
public typealias JSONMergePatchResponseSerializer = HTTPBodyResponseSerializer<JSONMergePatch>
