import Foundation

/// An nginx configuration that uses only files in the server's directory.
struct NginxConfiguration {
    var directory: URL
    var port: UInt16
    var securePort: UInt16
    var certificates: TestCertificates
    var hasDAV: Bool
    /// The port of the server behind `/forward/`.
    var forwardedPort: UInt16?
    /// The number of requests after which nginx closes a connection.
    var connectionRequests: Int
    /// A token that distinguishes this server from another one that took the port first.
    var token: String

    /// A JSON document of 1,024 bytes.
    static let json: String = {
        var text = #"{"users":["#
        var index = 0
        while text.utf8.count < 940 {
            text += (index == 0 ? "" : ",") + #"{"id":\#(index),"name":"user \#(index)","admin":false}"#
            index += 1
        }
        text += #"],"padding":""#
        text += String(repeating: "x", count: 1024 - text.utf8.count - 2)
        return text + "\"}"
    }()

    var text: String {
        let root = directory.path
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(root)/tmp-\($0);" }.joined(separator: "\n    ")
        return """
            daemon off;
            master_process off;
            worker_processes 1;
            pid \(root)/nginx.pid;
            error_log \(root)/error.log warn;
            events { worker_connections 8192; }
            http {
                access_log off;
                default_type application/octet-stream;
                types { text/plain txt; text/html html; application/json json; }
                sendfile on;
                tcp_nodelay on;
                keepalive_timeout 60s;
                keepalive_requests \(connectionRequests);
                client_max_body_size 0;
                limit_conn_zone $arg_key zone=few:1m;
                \(temporary)
                server {
                    listen 127.0.0.1:\(port) backlog=4096;
                    \(locations)
                }
                server {
                    listen 127.0.0.1:\(securePort) ssl http2 backlog=4096;
                    ssl_certificate \(certificates.serverCertificate.path);
                    ssl_certificate_key \(certificates.serverKey.path);
                    ssl_protocols TLSv1.2 TLSv1.3;
                    \(locations)
                }
            }

            """
    }

    private var locations: String {
        let dav =
            hasDAV ? "location /dav/ { root \(directory.path); dav_methods PUT DELETE MKCOL; create_full_put_path on; }" : ""
        // "return" responds before the body has been read, but the proxy reads the body completely first.
        return """
            root \(directory.path)/files;
                location = /.instance { return 200 "\(token)"; }
                location = /small { default_type text/plain; return 200 "hello world"; }
                location = /json { default_type application/json; return 200 '\(Self.json)'; }
                location = /empty { return 204; }
                location = /moved { return 302 /small; }
                location = /credentials { return 200 "[$http_authorization][$http_proxy_authorization]"; }
                location = /upload {
                    client_body_buffer_size 256k;
                    proxy_method GET;
                    proxy_pass_request_body off;
                    proxy_set_header Content-Length "";
                    proxy_set_header Expect "";
                    add_header X-Content-Length $content_length;
                    add_header X-Request-Length $request_length;
                    proxy_pass http://127.0.0.1:\(port)/empty;
                }
                location /private/ {
                    alias \(directory.path)/files/;
                    auth_basic "nginx";
                    auth_basic_user_file \(directory.path)/users;
                }
                location /list/ { alias \(directory.path)/files/; autoindex on; autoindex_format json; }
                location /gzip/ { alias \(directory.path)/files/; gzip on; gzip_min_length 0; gzip_types *; }
                \(fewConnections)
                \(dav)
                \(forwarding)
            """
    }

    private var fewConnections: String {
        (1...3).map { limit in
            """
            location /few-\(limit)/ {
                alias \(directory.path)/files/;
                limit_conn few \(limit);
                limit_rate 8m;
            }
            """
        }.joined(separator: "\n")
    }

    /// The configuration of forwarding, which buffers and caches nothing, so that the server's effects on a response
    /// reach the client.
    private var forwarding: String {
        guard let forwardedPort else { return "" }
        return """
            location /forward/ {
                proxy_pass http://127.0.0.1:\(forwardedPort)/;
                proxy_http_version 1.1;
                proxy_set_header Connection close;
                proxy_buffering off;
                proxy_request_buffering off;
                proxy_max_temp_file_size 0;
                proxy_redirect off;
                proxy_pass_header Date;
                add_header X-Server-Protocol $server_protocol always;
            }
            """
    }
}
