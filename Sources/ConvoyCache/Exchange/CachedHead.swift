/// The head of a response: its status and its fields, in order.
///
/// Values are text as the engine decodes it, and are given back as they came.
package struct CachedHead: Sendable {
    package let statusCode: Int
    package let fields: [(name: String, value: String)]

    package init(statusCode: Int, fields: [(name: String, value: String)]) {
        self.statusCode = statusCode
        self.fields = fields
    }
}
