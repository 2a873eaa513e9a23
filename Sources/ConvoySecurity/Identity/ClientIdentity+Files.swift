import Foundation

extension ClientIdentity {
    /// The files that the identity is read from; nil if any of it was given as bytes. The key is nil if it is in the same
    /// file.
    package var files: (certificate: URL, key: URL?, isPKCS12: Bool)? {
        switch form {
        case .pem(.file(let certificate), .file(let key)): (certificate, key == certificate ? nil : key, false)
        case .pkcs12(.file(let file)): (file, nil, true)
        default: nil
        }
    }
}
