import ConvoySupport
import ConvoyTransport
import Foundation

/// The way to the server.
extension CurlCommand {
    mutating func addRoute() {
        switch configuration.proxy {
        case .environment: break
        case .none: words += ["--noproxy", ShellText.word("*")]
        case .proxy(let proxy, let exceptions):
            words += ["--proxy", ShellText.word(proxy.description)]
            // Without it, curl reads the exceptions of the environment.
            words += ["--noproxy", ShellText.word(exceptions.joined(separator: ","))]
            if let credential = proxy.credential {
                if proxy.kind.isHTTP { words.append("--proxy-anyauth") }
                words += ["--proxy-user", login(credential.user, credential.password)]
            }
        }
        if let address = request.url.flatMap({ Target($0) }).flatMap(configuration.fixedAddress) {
            words += ["--connect-to", ShellText.word(address)]
        }
        if let socket = configuration.unixSocket {
            let isAbstract = socket.hasPrefix("@")
            words.append(isAbstract ? "--abstract-unix-socket" : "--unix-socket")
            words.append(ShellText.word(isAbstract ? String(socket.dropFirst()) : socket))
        }
        switch configuration.connectionSource {
        case .interface(let name): words += ["--interface", ShellText.word("if!\(name)")]
        case .address(let address): words += ["--interface", ShellText.word("host!\(address)")]
        case nil: break
        }
        if let credential {
            words += ["--anyauth", "--user", login(credential.user ?? "", credential.password ?? "")]
        }
    }

    private func login(_ user: String, _ password: String) -> String {
        ShellText.word(includesSecrets ? "\(user):\(password)" : "\(Redaction.mask):\(Redaction.mask)")
    }
}
